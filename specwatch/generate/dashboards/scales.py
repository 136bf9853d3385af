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
GAIN = Scale("suffix:tokens/s", low=None, decimals=1)
"""Tokens a second that may be lost."""
REQUESTS = Scale("suffix:requests", decimals=1)
REQUEST_RATE = Scale("reqps")
SECONDS = Scale("s")
HOURS = Scale("suffix:h", low=None, decimals=1)
COUNT = Scale("none", decimals=0)
SCORE = Scale("none", decimals=2)
POINTS = Scale("percentunit", low=-1.0, high=1.0, decimals=1)
"""A difference of two shares."""

NOTHING_DRAFTED = "Too few drafts in view to say"
NOTHING_DECODED = "Nothing is decoded in view"
NO_SERVER = "No vLLM server is scraped under this selection"
NO_REQUEST_ENDED = "No request ended in view"
NO_ALERT = "No alert of specwatch is firing"
NO_SIDECAR = "Needs specwatch's sidecar, scraped by this Prometheus"
NOT_CALIBRATED = "Needs the sidecar with a calibration: specwatch calibrate"
NOT_MEASURED = "Needs the sidecar with a measured baseline"
NO_V0 = "No server here runs the V0 engine with a recorded acceptance (gen-alerts --v0-num-speculative-tokens)"
