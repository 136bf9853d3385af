"""Units and ranges of what the dashboards show, and what stands where there is nothing to show."""

from __future__ import annotations

from specwatch.generate.grafana import SHARE as SHARE
from specwatch.generate.grafana import Scale

TIMES = Scale("suffix:×", decimals=2)
"""A speedup."""
TOKENS = Scale("suffix:tokens", decimals=2)
"""Tokens a step."""
PROMPTS = Scale("suffix:tokens", decimals=0)
"""Tokens a request."""
MANY_TOKENS = Scale("short", low=None)
"""Tokens by the million, and lost ones below 0."""
RATE = Scale("suffix:tokens/s")
GAIN = Scale("suffix:tokens/s", low=None)
"""Tokens a second that may be lost."""
REQUESTS = Scale("suffix:req", decimals=1, at_least=1.0)
REQUEST_RATE = Scale("reqps")
SECONDS = Scale("s")
HOURS = Scale("suffix:h", low=None, decimals=1)
COUNT = Scale("none", decimals=0, at_least=1.0)
SCORE = Scale("none", decimals=2, at_least=1.1)
"""A drift score: the alarm is at 1, and always in sight."""
POINTS = Scale("percentunit", low=-1.0, high=1.0, decimals=1)
"""A difference of two shares."""
SHIFT = Scale("percentunit", low=None, decimals=1)
"""The same over time, where a small one has to be seen."""

NOTHING_DRAFTED = "Too few drafts in view to say"
NOTHING_DECODED = "Nothing is decoded in view"
NO_SERVER = "No vLLM server is scraped under this selection"
NO_REQUEST_ENDED = "No request ended in view"
NO_ALERT = "No alert of specwatch is firing"
NO_SIDECAR = "Needs specwatch's sidecar, scraped by this Prometheus"
NO_FINDING = "The sidecar finds nothing wrong, or there is none"
NOT_CALIBRATED = "Needs the sidecar with a calibration: specwatch calibrate"
NOT_CHECKED = "Needs the sidecar with checks of losslessness: sidecar --verify-every"
NOT_MEASURED = "Needs the sidecar with a measured baseline"
NO_V0 = "No server here runs the V0 engine with a recorded acceptance (gen-alerts --v0-num-speculative-tokens)"
