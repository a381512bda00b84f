"""Brokers that are killed: started on one port again and again, over one data directory.

Rules of this file: the port lies outside the range from which the system takes ports for connections: a client that
connects to its own port again and again would otherwise sooner or later be connected with itself. Every broker is the
leader of a process group of its own, or a tool that runs it is; the group is what is killed.
"""

import contextlib
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import attrs

from tests.conftest import READY_LINE, READY_SECONDS_MAX, read_line
from tests.forks import PROGRAM, start_python

END_SECONDS_MAX = 30.0
VARIANTS = Path(__file__).with_name("broker_variant.py")


@attrs.define
class BrokerUnderTest:
    """How a broker is started, and the one that is running, if any."""

    directory: Path
    port: int
    settings: tuple = ()
    arguments: tuple = ()
    variant: str | None = None
    prefix: tuple = ()
    environment: dict = attrs.Factory(dict)
    data: Path = attrs.Factory(lambda self: self.directory / "data", takes_self=True)
    process: subprocess.Popen | None = None
    starts: int = 0

    @property
    def address(self):
        return "127.0.0.1", self.port

    @property
    def stderr(self):
        return (self.directory / f"stderr-{self.starts}").read_text(encoding="utf-8")

    def launch(self, mode, flush):
        """Start the process without waiting for anything."""
        assert self.process is None
        self.starts += 1
        program = PROGRAM if self.variant is None else (str(VARIANTS), self.variant)
        command = ["serve", "--mode", mode, "--flush", flush, "--port", str(self.port)]
        command += ["--data", str(self.data), *self.arguments]
        for setting in self.settings:
            command += ["--set", setting]
        self.directory.mkdir(parents=True, exist_ok=True)
        with (self.directory / f"stderr-{self.starts}").open("wb") as stderr:
            self.process = start_python(
                command,
                stderr,
                program=program,
                prefix=self.prefix,
                environment=self.environment,
                process_group=0,
            )

    def start(self, mode, flush):
        """Start, and wait for the ready line."""
        self.launch(mode, flush)
        line = read_line(self.process, READY_SECONDS_MAX)
        if not READY_LINE.fullmatch(line):
            self.kill()
            raise StartFailed(f"no ready line but {line!r}; on stderr:\n{self.stderr}")

    def suspend(self):
        """Hold all of its processes; nothing happens when they have ended."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGSTOP)

    def kill(self):
        """End it as a crash would; nothing happens when it has ended."""
        if self.process is not None:
            self._kill_group(self.process)
            self.wait()

    def kill_after(self, seconds):
        """End it as a crash would, some time from now."""
        time.sleep(seconds)
        self.kill()

    def kill_after_end(self, seconds_max):
        """Let it end by itself, but no later than some time from now; tells whether it did."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds_max)
        ended = self.process.poll() is not None
        self.kill()
        return ended

    def stop(self, *signals):
        """End it in order; gives the exit code."""
        for number in signals or (signal.SIGTERM,):
            os.kill(self.process_id, number)
        return self.wait()

    @property
    def process_id(self):
        """Of the broker itself, also when a tool runs it."""
        number = self.process.pid
        children = Path(f"/proc/{number}/task/{number}/children").read_text(encoding="ascii").split()
        return int(children[0]) if self.prefix and children else number

    @staticmethod
    def _kill_group(process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    def wait(self):
        """Wait for its end; gives the exit code."""
        process, self.process = self.process, None
        try:
            return process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self._kill_group(process)
            process.wait()
            raise AssertionError(f"the broker did not end in {END_SECONDS_MAX} s; on stderr:\n{self.stderr}") from None
        finally:
            process.stdout.close()


class StartFailed(AssertionError):
    """The broker did not come up."""


def assert_failed_stop(broker, reason):
    """It ends, or has ended, by itself, because the disk failed a commit or the archive: one line says why."""
    code, stderr = broker.wait(), broker.stderr
    assert code == 1, stderr
    pattern = (
        rf"\S+ CRITICAL pipeline_broker\.node\.process: .*{reason}.*; "
        "(no later write was acknowledged|no acknowledged record is lost)"
    )
    lines = [line for line in stderr.splitlines() if " WARNING " not in line]
    assert len(lines) == 1, stderr
    assert re.fullmatch(pattern, lines[0]), lines[0]
