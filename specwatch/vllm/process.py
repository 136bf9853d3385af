"""Runs vLLM as a child, and the sidecar beside it: readiness, signals, exit codes, nothing left behind.

One thread, no handlers: the signals that matter are blocked and taken one by one, so that none can arrive at
a bad moment.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from specwatch.errors import SpecwatchError
from specwatch.vllm import descendants, systemd
from specwatch.vllm.endpoint import Endpoint
from specwatch.vllm.restarts import End, Restarts

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_WATCHED = (*STOP_SIGNALS, signal.SIGCHLD)
_HEALTH_INTERVAL = 0.5
"""Seconds between two questions to ``/health``: small against the 25 s of the fastest real start."""
_HEALTH_TIMEOUT = 2.0
"""Seconds for one answer: a server that is ready answers in milliseconds."""
_PROGRESS_INTERVAL = 10.0
"""Seconds between two lines of progress."""
_IDLE_SECONDS = 60.0
"""Seconds between two looks at a healthy server when no signal arrives; its end sends one."""
START_STOP_GRACE = 10.0
"""Seconds that vLLM has to end before it serves, when it has nothing to finish: 0.32 loses a SIGTERM that comes
while it loads, and goes on to serve."""
LEFTOVER_GRACE = 5.0
"""Seconds that engines and workers have to end after their server did."""
SIDECAR_GRACE = 5.0
"""Seconds that the sidecar has to end."""


@dataclass(frozen=True)
class Launch:
    """What to run and how long to wait for it."""

    command: tuple[str, ...]
    endpoint: Endpoint | None
    """Where readiness is asked for; None: it cannot be, vLLM is taken as ready at once."""
    ready_timeout: float
    """Seconds."""
    sidecar: tuple[str, ...] | None = None
    """Command of the sidecar; None: none."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables for vLLM alone: secrets, which its command line would show to everyone."""
    restarts: Restarts | None = None
    """None: vLLM is not started again."""
    before_restart: Callable[[int], None] = lambda count: None
    """Called before vLLM is started again, with how many times that is."""


def run(launch: Launch, say: Callable[[str], None]) -> int:
    """Run a launch to its end and return vLLM's exit code (128 + n after signal n).

    Where it was to be started again and keeps failing, an exit code 0 that nobody asked for becomes 1: vLLM ends so
    when its engine dies. ``say`` shows one message to the user. SpecwatchError when vLLM is not ready in time.
    Whatever happens, every process that was started has ended when this returns. Linux only.
    """
    if not hasattr(signal, "sigtimedwait"):
        raise SpecwatchError("this system cannot supervise vLLM; start the command of --dry-run yourself")
    with _signals_blocked() as inherited:
        descendants.adopt_orphans()
        supervisor = _Supervisor(launch, say, inherited)
        try:
            return supervisor.run()
        finally:
            supervisor.clean_up()


@contextmanager
def _signals_blocked() -> Iterator[set[signal.Signals | int]]:
    """Hold the watched signals back for as long as this runs; gives the mask that children are to have."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    try:
        yield set(before)
    finally:
        while signal.sigtimedwait(_WATCHED, 0) is not None:
            pass  # a late Ctrl-C must not turn a clean end into a traceback
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@dataclass
class _Supervisor:
    launch: Launch
    say: Callable[[str], None]
    inherited_mask: set[signal.Signals | int]
    server: subprocess.Popen[bytes] | None = None
    sidecar: subprocess.Popen[bytes] | None = None
    sidecar_reported: bool = False
    too_late: bool = False
    stop_requests: int = 0
    stop_asked: float = 0.0
    started: float = field(default_factory=time.monotonic)

    def run(self) -> int:
        failures = count = 0
        while True:
            end = self._run_once()
            restarts = self.launch.restarts
            failures = 1 if restarts is not None and restarts.recovered(end) else failures + 1
            if restarts is None or not self._goes_again(restarts, end, failures):
                return self._result(end)
            count += 1
            self.launch.before_restart(count)

    def _run_once(self) -> End:
        self.started, self.too_late = time.monotonic(), False
        self.server = server = self._start(self.launch.command, self.launch.environment)
        ready = self._wait_until_ready(server)
        ready_at = time.monotonic()
        if ready and not self.stop_requests:
            systemd.notify("READY=1", "STATUS=vLLM serves")
            self._start_sidecar()
        while server.poll() is None:
            self._take_signal(_IDLE_SECONDS)
            self._watch_sidecar()
        served = time.monotonic() - ready_at if ready else None
        return End(_code(server.returncode), self._seconds(), served, self.too_late)

    def _goes_again(self, restarts: Restarts, end: End, failures: int) -> bool:
        """Whether vLLM is to be started again; waits until then."""
        if self.stop_requests:
            return False
        pause = restarts.pause(failures)
        if end.hopeless or pause is None:
            why = "it refuses its command line" if end.hopeless else f"it failed {failures} times in a row"
            self.say(f"vLLM is not started again: {why}")
            return False
        self.say(f"{_ended(end)}; starting it again in {pause:g} s ({failures} of {restarts.limit})")
        systemd.notify(f"STATUS=vLLM ended with code {end.code}, starting it again in {pause:g} s")
        self._end_leftovers()
        self.server = None
        deadline = time.monotonic() + pause
        while not self.stop_requests and (left := deadline - time.monotonic()) > 0:
            self._take_signal(left)
            self._watch_sidecar()
        return not self.stop_requests

    def clean_up(self) -> None:
        """End everything that is still there, the sidecar last: it may still report the end."""
        self._end_leftovers()
        if self.sidecar is not None:
            _end(self.sidecar, SIDECAR_GRACE)
            descendants.end_all(self.sidecar.pid, 0.0, ())

    def _end_leftovers(self) -> None:
        """End what a server left behind: engines and workers would keep the GPU's memory from the next one."""
        keep = {self.sidecar.pid} if self.sidecar else set()
        if self.server is not None and not descendants.end_all(self.server.pid, LEFTOVER_GRACE, keep):
            self.say("a process of vLLM does not end, not even killed: look for it with ps and at the GPU's driver")

    def _start(
        self, command: Sequence[str], variables: Mapping[str, str], stdout: int | None = None
    ) -> subprocess.Popen[bytes]:
        parent = os.getpid()
        environment = {name: value for name, value in os.environ.items() if name != systemd.SOCKET} | dict(variables)

        def in_child() -> None:
            signal.pthread_sigmask(signal.SIG_SETMASK, self.inherited_mask)
            descendants.end_with_parent()
            if os.getppid() != parent:  # it died before it could be watched
                os._exit(1)

        # A session of its own: Ctrl-C in the terminal reaches vLLM through this process, once and in order.
        # preexec_fn is safe here: this process has a single thread.
        try:
            return subprocess.Popen(
                command, stdout=stdout, env=environment, start_new_session=True, preexec_fn=in_child
            )
        except OSError as problem:
            raise SpecwatchError(f"{command[0]}: cannot be started: {problem.strerror}") from problem

    def _wait_until_ready(self, server: subprocess.Popen[bytes]) -> bool:
        """Wait for ``/health``; False when vLLM ended first."""
        place = self.launch.endpoint
        if place is None:
            self.say("vLLM is started; it has no port of its own to ask whether it is ready")
            return True
        next_progress = _PROGRESS_INTERVAL
        while server.poll() is None:
            if self.stop_requests:
                self._stop_before_ready(server)
            elif place.healthy(_HEALTH_TIMEOUT):
                self.say(f"vLLM is ready at {place.url} after {self._seconds():.0f} s")
                return True
            elif self._seconds() > self.launch.ready_timeout:
                self._give_up(server, place)
            elif self._seconds() >= next_progress:
                next_progress += _PROGRESS_INTERVAL
                limit = f"{self._seconds():.0f} s of at most {self.launch.ready_timeout:g} s"
                self.say(f"waiting for {place.url}/health: {limit}")
            self._take_signal(_HEALTH_INTERVAL)
        return False

    def _stop_before_ready(self, server: subprocess.Popen[bytes]) -> None:
        if time.monotonic() - self.stop_asked > START_STOP_GRACE:
            self.say("vLLM was not serving yet and did not end by itself: killing it")
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()

    def _give_up(self, server: subprocess.Popen[bytes], place: Endpoint) -> None:
        self.say(f"vLLM did not answer at {place.url}/health within {self.launch.ready_timeout:g} s: stopping it")
        self.too_late = True
        _end(server, START_STOP_GRACE)

    def _take_signal(self, seconds: float) -> None:
        """Wait for a signal, at most that long, and act on it."""
        taken = signal.sigtimedwait(_WATCHED, seconds)
        if taken is None:
            return
        if taken.si_signo in STOP_SIGNALS:
            self._stop(signal.Signals(taken.si_signo))
        known = [process.pid for process in (self.server, self.sidecar) if process is not None]
        descendants.reap(known)

    def _stop(self, number: signal.Signals) -> None:
        """The first request lets vLLM finish, a second one does not."""
        self.stop_requests += 1
        systemd.notify("STOPPING=1")
        if self.server is None or self.server.poll() is not None:
            return
        if self.stop_requests == 1:
            self.stop_asked = time.monotonic()
            self.say(f"{number.name}: passed on to vLLM, which ends by itself; a second signal kills it")
            self.server.send_signal(signal.SIGINT if number is signal.SIGINT else signal.SIGTERM)
        else:
            self.say(f"{number.name} again: killing vLLM")
            os.killpg(self.server.pid, signal.SIGKILL)

    def _start_sidecar(self) -> None:
        command = self.launch.sidecar
        if command is None or (self.sidecar is not None and self.sidecar.poll() is None):
            return  # it outlives a server that is started again
        self.sidecar_reported = False
        self.say(f"starting the sidecar: {shlex.join(command)}")
        try:
            # What it prints goes to standard error: standard output is vLLM's.
            self.sidecar = self._start(command, {}, stdout=2)
        except SpecwatchError as problem:
            self.say(f"no sidecar: {problem}")

    def _watch_sidecar(self) -> None:
        """Say once that the sidecar has ended; vLLM goes on."""
        if self.sidecar is None or self.sidecar_reported or self.stop_requests or self.sidecar.poll() is None:
            return
        self.sidecar_reported = True
        self.say(
            f"the sidecar ended with code {_code(self.sidecar.returncode)}; vLLM goes on without it. "
            f"To start it again: {shlex.join(self.launch.sidecar or ())}"
        )

    def _result(self, end: End) -> int:
        if self.stop_requests:
            self.say(f"vLLM ended with code {end.code}")
        elif end.too_late:
            raise SpecwatchError(
                f"vLLM did not serve within {self.launch.ready_timeout:g} s and was stopped. Its log above shows how "
                "far it came; a large model on a slow disk needs a longer --ready-timeout."
            )
        elif end.served is not None:
            self.say(f"{_ended(end)}; its log above says why")
        else:
            self.say(
                f"{_ended(end)}, before it served. Its log above says why: look for the first error, later ones such "
                "as 'Engine core initialization failed' only follow"
            )
        failed = self.launch.restarts is not None and not self.stop_requests
        return end.code or int(failed)

    def _seconds(self) -> float:
        return time.monotonic() - self.started


def _ended(end: End) -> str:
    by_itself = " by itself" if end.served is not None else ""
    return f"vLLM ended{by_itself} with code {end.code} after {end.seconds:.0f} s"


def _code(returncode: int) -> int:
    """An exit code as a shell would have it."""
    return returncode if returncode >= 0 else 128 - returncode


def _end(process: subprocess.Popen[bytes], grace: float) -> None:
    """SIGTERM, ``grace`` seconds, SIGKILL."""
    process.terminate()
    try:
        process.wait(grace)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
