"""When a vLLM that failed is started again, and when no more."""

from __future__ import annotations

from dataclasses import dataclass

_USAGE = 2
"""Exit code of argparse."""


@dataclass(frozen=True)
class End:
    """How one run of vLLM ended."""

    code: int
    """Exit code as a shell has it: 128 + n after signal n."""
    seconds: float
    """From its start."""
    served: float | None
    """Seconds that it served; None: it never did."""
    too_late: bool = False
    """It was stopped because it did not serve in time."""

    @property
    def hopeless(self) -> bool:
        """Whether it refused its own command line: the next one would do the same."""
        return self.served is None and self.code == _USAGE


@dataclass(frozen=True)
class Restarts:
    """A policy of pauses that double, with the figures that Kubernetes has for containers unless told otherwise."""

    limit: int = 5
    """Starts in a row after which a server that keeps failing is left alone."""
    delay: float = 10.0
    """Seconds before the first start again; each further pause is twice the one before."""
    longest: float = 300.0
    """Seconds that no pause exceeds."""
    settled: float = 600.0
    """Seconds of service after which a failure counts as the first one."""

    def pause(self, failures: int) -> float | None:
        """Seconds to wait after so many failures in a row, from 1 on; None: no more."""
        if failures > self.limit:
            return None
        # The exponent is bounded because the power is computed before the minimum is taken.
        return min(self.delay * 2.0 ** min(failures - 1, 64), self.longest)

    def recovered(self, end: End) -> bool:
        """Whether that run served long enough to make up for the failures before it."""
        return end.served is not None and end.served >= self.settled
