"""Write the page that vLLM's own logger lays out for two engines: python two_engine_page.py FILE K MODEL_NAME.

A program of its own, because the logger fills the process's registry. Its configuration is stood in for: only what the
logger looks at is there, and what is missing reads as None.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import prometheus_client
from vllm.v1.metrics.loggers import PrometheusStatLogger


class Configuration(SimpleNamespace):
    """What is not set is None."""

    def __getattr__(self, name: str) -> None:
        return None


def main() -> None:
    target, k, model_name = sys.argv[1:]
    configuration: Any = Configuration(
        observability_config=Configuration(),
        model_config=Configuration(served_model_name=model_name, max_model_len=1024),
        speculative_config=Configuration(num_speculative_tokens=int(k)),
        scheduler_config=Configuration(),
        parallel_config=Configuration(),
    )
    PrometheusStatLogger(configuration, [0, 1])
    Path(target).write_bytes(prometheus_client.generate_latest())


if __name__ == "__main__":
    main()
