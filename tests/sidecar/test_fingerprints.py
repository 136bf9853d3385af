from __future__ import annotations

import json

import pytest

from specwatch.config import SidecarConfig
from specwatch.errors import InputError
from specwatch.lab.scenario import HOME, Domain, Phase
from specwatch.lab.simulated_engine import StepCost
from specwatch.lab.simulator import SimulatedServer
from specwatch.sidecar.run import watch_settings
from specwatch.signals.fingerprint import FORMAT
from tools.rehearsal import offstage

SLOW = StepCost(weights_seconds=0.2)
"""Five steps a second: enough to tell acceptance, and twelve times fewer to simulate."""

POETRY = Domain("poetry", acceptance=0.5, prompt_tokens=2000)


def entry(alpha: float) -> dict[str, object]:
    rates = [alpha ** (position + 1) for position in range(5)]
    return {"by_k": [{"num_speculative_tokens": 5, "acceptance_by_position": rates}]}


async def test_a_change_of_domain_names_the_known_domain_that_it_is_most_like(tmp_path):
    path = tmp_path / "fingerprints.json"
    path.write_text(json.dumps({"format": FORMAT, "domains": {"code": entry(0.9), "poems": entry(0.52)}}))
    settings = watch_settings(SidecarConfig(fingerprints=path), None)
    script = [Phase(1800, "home", HOME), Phase(traffic=POETRY)]
    servers = [
        SimulatedServer(name, model_name="llama", running=8, cost=SLOW, script=script) for name in ("gpu-1", "gpu-2")
    ]
    async with offstage(servers) as stage:
        for watch in stage.service.watches.values():
            watch.settings = settings
        await stage.play(3600, step=15)
        views = stage.service.views()
    for view in views:
        assert view.findings[0].code == "traffic-changed", view.findings
        assert "It looks most like 'poems' now." in view.findings[0].text


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"format": 9, "domains": {}}'])
def test_a_file_without_fingerprints_is_refused_by_name(tmp_path, content):
    path = tmp_path / "fingerprints.json"
    path.write_text(content)
    with pytest.raises(InputError, match=f"--fingerprints {path}: "):
        watch_settings(SidecarConfig(fingerprints=path), None)
    with pytest.raises(InputError, match="no such file"):
        watch_settings(SidecarConfig(fingerprints=tmp_path / "absent"), None)
