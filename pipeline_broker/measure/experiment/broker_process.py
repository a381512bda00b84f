"""Brokers as child processes: started on a free port of 127.0.0.1, awaited, and stopped in any case."""

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
LINE_BYTES_MAX = 1 << 16
_READY = re.compile(r"listening on (?P<host>.+):(?P<port>\d+) mode=")
_PACKAGES = str(Path(__file__).resolve().parents[3])


class ExperimentError(Exception):
    pass


@attrs.frozen(slots=True)
class BrokerSettings:
    """The settings of one broker process.

    Attributes:
        mode: name of its mode in the results; see `modes`.
        data: its data directory, which must not exist yet.
        commit_delay_ms: delay added to each commit.
        commits_in_flight: group commits that may run at the same time.
        flush: `always` or `os`.
        store: address of the object store with its journal and archive; empty if both are in the data directory.
        store_delay_ms: delay added to each request to the store.
        trace: folder for its trace files; None for no trace.
        brokers: broker processes, a cluster if there is more than one. `host` and `port` are those of the first one.
        properties: broker properties, which override those of the mode.
        options: further options of `serve`.
    """

    mode: str
    data: Path
    commit_delay_ms: float = 0.0
    commits_in_flight: int = COMMITS_IN_FLIGHT_MAX
    flush: str = "always"
    store: str = ""
    store_delay_ms: float = 0.0
    trace: Path | None = None
    brokers: int = 1
    properties: tuple[tuple[str, str], ...] = ()
    options: tuple[str, ...] = ()

    def start(self) -> "BrokerProcess":
        return BrokerProcess(self)

    def command(self) -> list[str]:
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
        if self.brokers > 1:
            arguments += ["--brokers", str(self.brokers)]
        for name, value in {**overrides, **dict(self.properties)}.items():
            arguments += ["--set", f"{name}={value}"]
        return python_module("pipeline_broker", "serve", *arguments, *self.options)


def python_module(*arguments: str) -> list[str]:
    """Return a command that runs a module of this project in any working directory."""
    # With -P, modules in the working directory do not shadow ours.
    return [sys.executable, "-P", "-m", *arguments]


def python_environment() -> Mapping[str, str]:
    # The folder of our packages comes first, so that a child finds them whether or not they are installed.
    paths = [_PACKAGES, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


class BrokerProcess:
    """A started broker; `host` and `port` are known once it is ready."""

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.host, self.port = "", 0
        self._terminated = False
        settings.data.mkdir(parents=True)
        self._errors_path = settings.data.with_suffix(".stderr")
        with self._errors_path.open("wb") as errors:
            # In its own session, so that Ctrl-C reaches the experiment only, which then stops its brokers in order.
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
        """Wait until the broker prints its address.

        Raises:
            ExperimentError: the broker exits, or prints something else, or nothing in `READY_S_MAX` seconds.
        """
        assert self._process.stdout is not None
        line = read_line(self._process.stdout, READY_S_MAX)
        match = _READY.match(line)
        if match is None:
            error = self._last_error() or line.strip()
            raise ExperimentError(f"the {self.settings.mode} broker did not start: {error}")
        self.host, self.port = match["host"], int(match["port"])

    def terminate(self) -> None:
        if not self._terminated and self._process.poll() is None:
            self._terminated = True
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        """Send SIGTERM unless that was done, and wait until the broker has drained and exited.

        Raises:
            ExperimentError: the broker did not drain in `DRAIN_S_MAX` seconds and was killed, or its exit code is not
                0.
        """
        self.terminate()
        try:
            code = self._process.wait(DRAIN_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise ExperimentError(
                f"the {self.settings.mode} broker did not shut down within {DRAIN_S_MAX:g} s and was killed. Repeat the"
                " experiment on a quieter machine"
            ) from None
        finally:
            if self._process.stdout is not None:
                self._process.stdout.close()
        if code != 0:
            error = self._last_error()
            raise ExperimentError(f"the {self.settings.mode} broker ended with exit code {code}: {error}")

    def _last_error(self) -> str:
        return last_line(self._errors_path)


def last_line(path: Path) -> str:
    """Return the last line of a child's output, at most LINE_BYTES_MAX bytes; empty if it wrote none."""
    with path.open("rb") as output:
        output.seek(max(0, output.seek(0, os.SEEK_END) - LINE_BYTES_MAX))
        lines = output.read(LINE_BYTES_MAX).decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def read_line(stream: IO[bytes], seconds: float) -> str:
    """Read a line of a child that writes one at a time; at the end of its output the text is empty or unfinished.

    Raises:
        ExperimentError: no line arrived within `seconds`.
    """
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
    """A broker that can be driven: one of this project, or another one.

    Attributes:
        host, port: its address, once it is ready.
        trace: folder of its trace files; None for no trace.
    """

    host: str
    port: int

    @property
    def trace(self) -> Path | None: ...

    def wait_ready(self) -> None: ...

    def terminate(self) -> None: ...

    def stop(self) -> None: ...


class BrokerStart(Protocol):
    """A way to get a broker: start a process, or use a running one."""

    def start(self) -> RunningBroker:
        """Start the broker without waiting until it is ready."""


@attrs.define(slots=True)
class FoundBroker:  # the user started it and stops it
    host: str
    port: int
    trace: None = None

    def start(self) -> "FoundBroker":
        return self

    def wait_ready(self) -> None: ...

    def terminate(self) -> None: ...

    def stop(self) -> None: ...


class Brokers:
    """The brokers that run now. All have exited after the block."""

    def __init__(self) -> None:
        self._running: list[RunningBroker] = []
        self._ending: list[RunningBroker] = []

    def __enter__(self) -> Self:
        return self

    def replace(self, settings: Sequence[BrokerStart]) -> list[RunningBroker]:
        """Start brokers while the previous ones drain, which saves time.

        Return the new ones when they are ready and the previous ones have exited.

        Raises:
            ExperimentError: a broker did not start, or a previous one did not end cleanly.
        """
        self._terminate_all()
        started = self._started(settings)
        self._wait_exited()
        return self._ready(started)

    def add(self, settings: Sequence[BrokerStart]) -> list[RunningBroker]:
        """Start brokers beside the running ones, and return the new ones when they are ready.

        Raises:
            ExperimentError: a broker did not start.
        """
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

    def _terminate_all(self) -> None:
        for broker in self._running:
            broker.terminate()
        self._ending += self._running
        self._running = []

    def _wait_exited(self) -> None:
        with contextlib.ExitStack() as stack:  # waits for all of them, even if one has failed
            for broker in self._ending:
                stack.callback(broker.stop)
            self._ending = []

    def __exit__(self, *exception: object) -> None:
        self._terminate_all()
        self._wait_exited()


@contextlib.contextmanager
def running(settings: Sequence[BrokerStart]) -> Iterator[list[RunningBroker]]:
    with Brokers() as brokers:
        yield brokers.replace(settings)
