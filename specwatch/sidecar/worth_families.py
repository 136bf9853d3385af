"""What speculation is worth, as metrics: by the kind of knowledge, with what it saves and which K would be best."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric

from specwatch.sidecar.views import TargetView
from specwatch.signals.speedup import Speedup
from specwatch.vllm.calibration import CalibratedCell

Told = tuple[str, Callable[[Speedup], float | None]]

OF_EVERY_KIND: Mapping[str, Told] = {
    "specwatch_speedup_ratio": ("Speed with speculation ÷ without.", lambda speedup: speedup.value),
    "specwatch_speedup_low_ratio": (
        "Lower end of the speedup: of a 95 % interval, or of the band that published measurements keep to an estimate.",
        lambda speedup: speedup.low,
    ),
    "specwatch_speedup_high_ratio": ("Upper end of the speedup, as the lower one.", lambda speedup: speedup.high),
}

OF_THE_BEST_KNOWN: Mapping[str, Told] = {
    "specwatch_break_even_acceptance_ratio": (
        "Acceptance rate at which speculation neither gains nor loses, drafts as long as today's.",
        lambda speedup: speedup.break_even_acceptance,
    ),
    "specwatch_saved_tokens_per_hour": (
        "Tokens an hour more than without speculation; below 0: fewer.",
        lambda speedup: speedup.tokens_saved_per_hour,
    ),
    "specwatch_saved_gpu_seconds_per_hour": (
        "GPU seconds an hour that speculation saves at most; below 0: it costs them.",
        lambda speedup: speedup.gpu_seconds_saved_per_hour,
    ),
    "specwatch_recommended_draft_tokens": (
        "The K with the largest speedup on this traffic; 0: none pays.",
        lambda speedup: speedup.recommended_k,
    ),
    "specwatch_recommended_speedup_ratio": (
        "What the recommended K would give.",
        lambda speedup: speedup.recommended_speedup,
    ),
}

_LABELS = ("target", "model_name")


def families(views: Sequence[TargetView], cells: Iterable[CalibratedCell]) -> Iterator[Metric]:
    """One family for each thing told; no sample where it is not known."""
    for name, told in OF_EVERY_KIND.items():
        yield _family(
            name, told, (*_LABELS, "kind"), ((view, s, (s.kind.value,)) for view in views for s in view.speedups)
        )
    for name, told in OF_THE_BEST_KNOWN.items():
        yield _family(name, told, _LABELS, ((view, view.speedups[0], ()) for view in views if view.speedups))
    bound = GaugeMetricFamily(
        "specwatch_step_bound_share_ratio",
        "Least time of a decode step by the GPU's bandwidth and arithmetic ÷ the time that it takes.",
        labels=_LABELS,
    )
    for view in views:
        if view.share_of_bound is not None:
            bound.add_metric([view.target.name, view.model_name or ""], view.share_of_bound)
    yield bound
    curve = GaugeMetricFamily(
        "specwatch_calibrated_speedup_ratio",
        "Speedup as the calibration in use measured it.",
        labels=["domain", "num_speculative_tokens", "concurrency"],
    )
    for cell in cells:
        curve.add_metric([cell.domain, str(cell.num_speculative_tokens), str(cell.concurrency)], cell.speedup)
    yield curve


def _family(
    name: str, told: Told, labels: tuple[str, ...], entries: Iterable[tuple[TargetView, Speedup, tuple[str, ...]]]
) -> Metric:
    help_text, of = told
    family = GaugeMetricFamily(name, help_text, labels=labels)
    for view, speedup, extra in entries:
        value = of(speedup)
        if value is not None:
            family.add_metric([view.target.name, view.model_name or "", *extra], value)
    return family
