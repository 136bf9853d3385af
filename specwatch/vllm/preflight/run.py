"""All checks of one plan, in order: the models first, then what two models are to each other."""

from __future__ import annotations

from dataclasses import dataclass

from specwatch.vllm.preflight import budget, draft_tokens, limits, methods, sampling, vocabulary
from specwatch.vllm.preflight.findings import Finding, Severity, note, refusal
from specwatch.vllm.preflight.memory import table
from specwatch.vllm.preflight.models import AbsentModel, Model, RemoteModel, UnreadableModel, find
from specwatch.vllm.preflight.planned_start import PlannedStart
from specwatch.vllm.preflight.weights import Weights, weights
from specwatch.vllm.safetensors import DamagedFile

_DAMAGED = "damaged-weights"


@dataclass(frozen=True)
class Report:
    """What preflight found."""

    findings: tuple[Finding, ...]
    """The weightiest first."""
    memory: budget.Judged | None = None
    """None without a draft, or where its files do not tell."""

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """Those that keep vLLM from being started."""
        return tuple(finding for finding in self.findings if finding.refuses)

    @property
    def table(self) -> str:
        """The draft's memory as a few lines; "" where it is not known."""
        return table(self.memory.memory, self.memory.placement) if self.memory else ""


def examine(plan: PlannedStart) -> Report:
    """Look at everything that can be read on this machine; never raises for what is wrong with a model."""
    findings: list[Finding] = []
    target = _model(plan, plan.target, plan.text("--revision"), findings)
    draft = None
    if plan.draft is not None and plan.draft != plan.target:
        revision = plan.asks_for("revision")
        draft = _model(plan, plan.draft, revision if isinstance(revision, str) else None, findings)
    sizes = (_weights(plan, target, findings), _weights(plan, draft, findings, of_draft=True))
    findings += limits.check(plan, target, draft)
    findings += methods.check(plan, target, draft)
    findings += draft_tokens.check(plan)
    findings += sampling.check(plan, target)
    judged = None
    if target is not None and draft is not None:
        tokenizer = _tokenizer(plan, target)
        findings += vocabulary.check(plan, target, tokenizer or target, draft)
        judged = budget.judge(plan, target, draft, *sizes)
        if judged:
            findings += budget.findings(judged, draft)
        elif sizes[1] is None and not any(finding.code == _DAMAGED for finding in findings):
            findings.append(
                note("memory-unknown", f"What {draft.name} takes of the memory is not known from its files.")
            )
    order = list(Severity)
    return Report(tuple(sorted(findings, key=lambda finding: order.index(finding.severity))), judged)


def _model(plan: PlannedStart, name: str, revision: str | None, findings: list[Finding]) -> Model | None:
    """The model, or None and a finding: vLLM would fail on what is broken, and fetch what is only absent."""
    try:
        return find(name, plan.environment, revision, plan.text("--download-dir"))
    except UnreadableModel as problem:
        findings.append(refusal("no-model", f"{problem}."))
    except RemoteModel as problem:
        if plan.draft is not None:
            findings.append(note("model-elsewhere", f"{problem}: it cannot be compared before vLLM has fetched it."))
    except AbsentModel as problem:
        if plan.starts:
            remedy = "Check the name, or fetch the model before: hf download NAME."
            findings.append(refusal("model-missing", f"{problem}.", remedy))
        else:
            findings.append(note("model-missing", f"{problem}: nothing is compared."))
    return None


def _tokenizer(plan: PlannedStart, target: Model) -> Model | None:
    """Where the target's tokenizer is, when it is not the target itself."""
    name = plan.text("--tokenizer")
    if name is None or name == plan.target:
        return None
    try:
        return find(name, plan.environment, plan.text("--tokenizer-revision"), plan.text("--download-dir"))
    except (AbsentModel, UnreadableModel):
        return None


def _weights(
    plan: PlannedStart, model: Model | None, findings: list[Finding], of_draft: bool = False
) -> Weights | None:
    if model is None:
        return None
    quantization = plan.asks_for("quantization") if of_draft else plan.text("--quantization", "-q")
    wide = (plan.text("--dtype") or "auto") in ("float32", "float")
    try:
        return weights(model, quantization if isinstance(quantization, str) else None, 4 if wide else 2)
    except (DamagedFile, UnreadableModel) as problem:
        findings.append(refusal(_DAMAGED, f"{problem}.", "Fetch the model again."))
    except OSError as problem:
        findings.append(refusal(_DAMAGED, f"The weights of {model.name} cannot be read: {problem}."))
    return None
