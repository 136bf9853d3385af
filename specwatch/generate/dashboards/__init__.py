"""Grafana dashboards: the fleet, a server in depth, drift, and what speculation is worth.

They read vLLM's own counters, so acceptance, speed and load need no recording rules; what is known of V0 servers comes
from the rules, alerts from whoever evaluates them, and drift, diagnosis and calibrated speedup from the sidecar. Values
come from the signal catalogue, thresholds from the alert catalogue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from specwatch.generate import grafana_dashboard
from specwatch.generate.dashboards.drift import drift
from specwatch.generate.dashboards.fleet import fleet
from specwatch.generate.dashboards.frame import DATASOURCE_TYPES, EVERY_SERVER, Board, Settings
from specwatch.generate.dashboards.server import server
from specwatch.generate.dashboards.speedup import speedup

__all__ = ["BOARDS", "DATASOURCE_TYPES", "EVERY_SERVER", "PROVISIONING", "Board", "Settings", "dashboard_files"]

PROVISIONING = "provisioning/dashboards.yml"

BOARDS: Mapping[Board, Callable[[Settings], dict[str, Any]]] = {
    Board.FLEET: fleet,
    Board.SERVER: server,
    Board.DRIFT: drift,
    Board.SPEEDUP: speedup,
}
"""What makes each dashboard's JSON."""


def dashboard_files(settings: Settings | None = None) -> dict[str, str]:
    """Texts of the dashboards and of Grafana's provisioning file, by path below the output folder."""
    chosen = settings or Settings()
    boards = {f"{chosen.uid(board)}.json": grafana_dashboard.text(make(chosen)) for board, make in BOARDS.items()}
    return {**boards, PROVISIONING: provisioning(chosen)}


def provisioning(settings: Settings) -> str:
    """The file that tells Grafana where the dashboards lie."""
    return _PROVISIONING_TEXT.format(folder=json.dumps(settings.folder, ensure_ascii=False))


_PROVISIONING_TEXT = """\
# Tells Grafana where the dashboards lie. Copy this file into Grafana's provisioning/dashboards folder, and the
# .json files beside its parent folder into the path below.
apiVersion: 1
providers:
  - name: specwatch
    folder: {folder}
    type: file
    allowUiUpdates: false
    updateIntervalSeconds: 30
    options:
      path: /var/lib/grafana/dashboards/specwatch
"""
