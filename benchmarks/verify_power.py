"""How often ``specwatch verify`` calls a lossless sampler distorted, and the smallest distortion it finds.

    python -m benchmarks.verify_power

samples from a simulated model with a draft (``verify_samplers``), lossless and distorted on purpose, and judges the
texts with the code of the command. False verdicts are counted at an error rate of 5 %, since 0.1 % would take a million
texts, looking after every 32 tokens and stopping at the first alarm; beside it, what a z-test of the same figures says
of the whole text, and when it looks as often, at that error rate and at 0.1 %. The smallest distortion is the one found
in 9 of 10 texts of 1,000 tokens at the command's own error rate. About 20 minutes on one core.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from benchmarks import verify_samplers
from benchmarks.verify_samplers import Model, Sampler
from specwatch.measure.losslessness import FEATURES, Limits, SampledTest

TEMPERATURES = (0.3, 0.7, 1.0)
LISTED = 20
"""Log-probabilities a token: vLLM's default."""
TOKENS = 1000
LOOK_EVERY = 32
FALSE_RATE = 0.05
FOUND = 0.9
"""Share of texts in which a distortion has to be found to count as found."""


@dataclass(frozen=True)
class Family:
    """One way to distort, in sizes from small to large."""

    name: str
    sizes: tuple[float, ...]
    unit: str

    def sampler(self, size: float) -> Sampler:
        """Distorted by so much."""
        make = {
            "garbage": verify_samplers.garbage,
            "draft kept unseen": verify_samplers.trusting,
            "rejected token not excluded": verify_samplers.without_residual,
            "likeliest or rare": verify_samplers.polarised,
            "too hot": verify_samplers.at_temperature,
            "too cold": verify_samplers.at_temperature,
        }[self.name]
        return make(size)


SHARES = (0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)

FAMILIES = (
    Family("garbage", SHARES, "of tokens"),
    Family("draft kept unseen", SHARES, "of drafts"),
    Family("rejected token not excluded", SHARES, "of rejections"),
    Family("likeliest or rare", SHARES, "of tokens"),
    Family("too hot", (1.05, 1.1, 1.15, 1.2, 1.3, 1.4, 1.6, 2.0), "× the temperature"),
    Family("too cold", (0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.3), "× the temperature"),
)


@dataclass(frozen=True)
class FalseVerdicts:
    """Of lossless texts."""

    texts: int
    found: int
    """Those that were called distorted at any look."""
    z_test: int
    """Those that a z-test would have called so at the end."""
    z_tests: int
    """Those that it would have called so at any look."""
    strict_z_tests: int
    """The same at the command's own error rate."""

    @property
    def shares(self) -> tuple[float, ...]:
        """All four as shares of the texts."""
        return tuple(count / self.texts for count in (self.found, self.z_test, self.z_tests, self.strict_z_tests))


def false_verdicts(model: Model, texts: int, tokens: int, seed: int) -> FalseVerdicts:
    """Judge so many lossless texts."""
    limits = Limits(error_rate=FALSE_RATE)
    usual, strict = (NormalDist().inv_cdf(1 - rate / (2 * len(FEATURES))) for rate in (FALSE_RATE, Limits().error_rate))
    counts = [0, 0, 0, 0]
    for number in range(texts):
        looks = [
            (test.log_ratio, max(abs(check.z) for check in test.reading(limits).checks))
            for test in _looks(model, verify_samplers.lossless, tokens, f"{seed} {number}")
        ]
        alarms = (
            any(ratio >= limits.bar for ratio, _ in looks),
            looks[-1][1] > usual,
            any(z > usual for _, z in looks),
            any(z > strict for _, z in looks),
        )
        counts = [count + alarm for count, alarm in zip(counts, alarms, strict=True)]
    return FalseVerdicts(texts, *counts)


def smallest(model: Model, family: Family, texts: int, tokens: int, seed: int) -> tuple[float, float] | None:
    """The smallest size that is found in FOUND of the texts, with the share found; None when none is."""
    for size in family.sizes:
        share = power(model, family.sampler(size), texts, tokens, seed)
        if share >= FOUND:
            return size, share
    return None


def power(model: Model, sampler: Sampler, texts: int, tokens: int, seed: int) -> float:
    """Share of texts that are called distorted; 0 as soon as it cannot be FOUND any more."""
    missed = 0
    for number in range(texts):
        missed += not _is_found(model, sampler, tokens, f"{seed} {number}")
        if missed > texts * (1 - FOUND):
            return 0.0
    return 1 - missed / texts


def _is_found(model: Model, sampler: Sampler, tokens: int, seed: str) -> bool:
    limits = Limits()
    return any(test.log_ratio >= limits.bar for test in _looks(model, sampler, tokens, seed))


def _looks(model: Model, sampler: Sampler, tokens: int, seed: str) -> Iterator[SampledTest]:
    """The test of one text, after every so many tokens."""
    test = SampledTest(model.temperature)
    source = random.Random(seed)  # noqa: S311 -- repeatable is the point here
    for number, token in enumerate(verify_samplers.text(model, sampler, tokens, LISTED, source), 1):
        test.take(token)
        if number % LOOK_EVERY == 0 or number == tokens:
            yield test


def report(texts: int, few: int, tokens: int = TOKENS, temperatures: Sequence[float] = TEMPERATURES) -> Iterator[str]:
    """Both tables, line by line: false verdicts of ``texts`` texts, power from ``few`` of them a size."""
    yield f"Lossless texts called distorted, of {texts} each, at an error rate of {FALSE_RATE:.0%}:"
    yield f"{'temperature':>12}{'tokens':>8}{'verify':>10}{'z once':>10}{'z often':>10}{'z often, 0.1%':>15}"
    for temperature in temperatures:
        model = verify_samplers.model(temperature)
        for length in (tokens * 3 // 10, tokens):
            found = false_verdicts(model, texts, length, seed=1)
            shares = "".join(f"{share:>10.2%}" for share in found.shares)
            yield f"{temperature:>12g}{length:>8}{shares}"
    yield ""
    yield f"Smallest distortion found in {FOUND:.0%} of {few} texts of {tokens} tokens, at an error rate of 0.1%:"
    for temperature in temperatures:
        model = verify_samplers.model(temperature)
        for family in FAMILIES:
            size = smallest(model, family, few, tokens, seed=2)
            shown = f"{size[0]:g} {family.unit} (in {size[1]:.0%})" if size else "none of those tried"
            yield f"{temperature:>12g}  {family.name:30}{shown}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=1000, help="lossless texts a row")
    parser.add_argument("--few", type=int, default=40, help="distorted texts a size")
    chosen = parser.parse_args()
    for line in report(chosen.texts, chosen.few):
        print(line, flush=True)
