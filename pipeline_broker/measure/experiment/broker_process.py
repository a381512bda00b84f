"""Brokers as child processes.

Rules of this file: a broker is started by this interpreter and listens on a free port of 127.0.0.1; it is ready when it
says so; it is always stopped, by SIGTERM to this very child, and by SIGKILL only when it does not drain in time. What
it wrote on stderr is shown when it fails.
"""

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Protocol, Self

import attrs

from pipeline_broker.measure.experiment.modes import MODES
from stages.commit_pace import COMMITS_IN_FLIGHT_MAX

READY_S_MAX = 30.0
DRAIN_S_MAX = 15.0
_READY = re.compile(r"listening on (?P<host>.+):(?P<port>\d+) mode=")
_PACKAGES = str(Path(__file__).resolve().parents[3])


class ExperimentError(Exception):
    """The experiment cannot go on; the message is for a person."""


@attrs.frozen(slots=True)
class BrokerSettings:
    """How a broker is started.

    Attributes:
        mode: its name in the results; see `modes`.
        data: its data directory, which does not exist yet.
        commit_delay_ms: injected into every commit.
        commits_in_flight: group commits that may run at once.
        flush: `always` or `os`.
        store: the address of the store that its journal and archive are in; empty: they are in its data directory.
        store_delay_ms: injected into every request to it.
        trace: the folder of its trace files; None: it writes none.
        properties: that go over those of the mode.
        options: further ones of `serve`.
    """

    mode: str
    data: Path
    commit_delay_ms: float = 0.0
    commits_in_flight: int = COMMITS_IN_FLIGHT_MAX
    flush: str = "always"
    store: str = ""
    store_delay_ms: float = 0.0
    trace: Path | None = None
    properties: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()

    def start(self) -> "BrokerProcess":
        """Begin to start one."""
        return BrokerProcess(self)

    def command(self) -> list[str]:
        """The arguments of `serve`."""
        preset, overrides = MODES[self.mode]
        arguments = ["--mode", preset, "--flush", self.flush, "--host", "127.0.0.1", "--port", "0"]
        arguments += ["--data", str(self.data)]
        if self.commit_delay_ms:
            arguments += ["--commit-delay", f"{self.commit_delay_ms:g}ms"]
        if self.store:
            arguments += ["--store", self.store, "--wal", "objects", "--store-delay", f"{self.store_delay_ms:g}ms"]
        if self.commits_in_flight != COMMITS_IN_FLIGHT_MAX:
            arguments += ["--commits-in-flight", str(self.commits_in_flight)]
        if self.trace is not None:
            arguments += ["--trace", str(self.trace)]
        for name, value in {**overrides, **dict(self.properties)}.items():
            arguments += ["--set", f"{name}={value}"]
        return python_module("pipeline_broker", "serve", *arguments, *self.options)


def python_module(*arguments: str) -> list[str]:
    """A command that runs a module of ours, whatever folder we are in (-P: its files do not shadow ours)."""
    return [sys.executable, "-P", "-m", *arguments]


def python_environment() -> Mapping[str, str]:
    """The environment in which our packages are found, installed or not."""
    paths = [_PACKAGES, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class BrokerProcess:
    """A broker that has been started; `host` and `port` are known once it is ready."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.host, self.port = "", 0
        self._terminated = False
        settings.data.mkdir(parents=True)
        self._errors_path = settings.data.with_suffix(".stderr")
        with self._errors_path.open("wb") as errors:
            # A session of its own: Ctrl-C reaches the experiment, which stops its brokers in order.
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                settings.command(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=python_environment(),
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def trace(self) -> Path | None:
        return self.settings.trace

    def wait_ready(self) -> None:
        """Wait for the line that says where the broker listens."""
        assert self._process.stdout is not None
        line = read_line(self._process.stdout, READY_S_MAX)
        match = _READY.match(line)
        if match is None:
            raise ExperimentError(f"the {self.settings.mode} broker did not start: {self._complaint() or line.strip()}")
        self.host, self.port = match["host"], int(match["port"])

    def terminate(self) -> None:
        """Ask the broker, once, to drain and end: a second SIGTERM would not wait for that."""
        if not self._terminated and self._process.poll() is None:
            self._terminated = True
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Wait until the broker has drained and ended; an error if it did not do so cleanly."""
        self.terminate()
        try:
            code = self._process.wait(DRAIN_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise ExperimentError(f"the {self.settings.mode} broker did not drain in {DRAIN_S_MAX:g} s") from None
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()
        if code != 0:
            complaint = self._complaint()
            raise ExperimentError(f"the {self.settings.mode} broker ended with exit code {code}: {complaint}")

    def _complaint(self) -> str:
        return last_line(self._errors_path)


def last_line(path: Path) -> str:
    """What a process wrote last; empty when it wrote nothing."""
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def read_line(stream: IO[bytes], seconds: float) -> str:
    """One line of a child's output; empty when it ends, an error when it does not come in time."""
    deadline = time.monotonic() + seconds
    line = b""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            if not selector.select(max(0.0, deadline - time.monotonic())):
                raise ExperimentError(f"a child process did not answer within {seconds:g} s")
            chunk = os.read(stream.fileno(), 1 << 16)
            if not chunk:
                break
            line += chunk
    return line.decode(errors="replace")


class RunningBroker(Protocol):
    """A broker that can be driven: ours, or another.

    Attributes:
        host, port: where it listens, once it is ready.
        trace: the folder of its trace files; None: it writes none.
    """

    host: str
    port: int

    @property
    def trace(self) -> Path | None: ...

    def wait_ready(self) -> None:
        """Return when it can be driven."""

    def terminate(self) -> None:
        """Ask it to end; does not wait."""

    def stop(self) -> None:
        """Wait until it has ended."""


class BrokerStart(Protocol):
    """How a broker is started, or found."""

    def start(self) -> RunningBroker:
        """Begin to start it."""


@attrs.define(slots=True)
class FoundBroker:
    """A broker that somebody else has started, and will end."""

    host: str
    port: int
    trace: None = None

    def start(self) -> "FoundBroker":
        """It runs."""
        return self

    def wait_ready(self) -> None: ...

    def terminate(self) -> None: ...

    def stop(self) -> None: ...


class Brokers:
    """The brokers that run now; all have ended after the block."""

    def __init__(self) -> None:
        self._running: list[RunningBroker] = []
        self._ending: list[RunningBroker] = []

    def __enter__(self) -> Self:
        return self

    def replace(self, settings: Sequence[BrokerStart]) -> list[RunningBroker]:
        """Start brokers while those before them drain; returns when these are ready and those have ended."""
        self._end_all()
        started = self._started(settings)
        self._wait_ended()
        return self._ready(started)

    def add(self, settings: Sequence[BrokerStart]) -> list[RunningBroker]:
        """Start brokers beside those that run; returns when the new ones are ready."""
        return self._ready(self._started(settings))

    def _started(self, settings: Sequence[BrokerStart]) -> list[RunningBroker]:
        before = len(self._running)
        for one in settings:
            self._running.append(one.start())
        return self._running[before:]

    def _ready(self, brokers: list[RunningBroker]) -> list[RunningBroker]:
        for broker in brokers:
            broker.wait_ready()
        return brokers

    def _end_all(self) -> None:
        for broker in self._running:
            broker.terminate()
        self._ending += self._running
        self._running = []

    def _wait_ended(self) -> None:
        with contextlib.ExitStack() as stack:  # all are waited for, also when one of them has failed
            for broker in self._ending:
                stack.callback(broker.stop)
            self._ending = []

    def __exit__(self, *exception: object) -> None:
        self._end_all()
        self._wait_ended()


@contextlib.contextmanager
def running(settings: Sequence[BrokerStart]) -> Iterator[list[RunningBroker]]:
    """Brokers that are all ready inside the block, and have all ended after it."""
    with Brokers() as brokers:
        yield brokers.replace(settings)
