"""A forgetful file system for a test: started, told what to do, and unmounted whatever happens.

Rules of this file: one process for each mount, ended by the end of its input; what it left mounted is unmounted here,
lazily, also when it crashed. Where FUSE cannot be used the reason is given, as a text to skip with.
"""

import contextlib
import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, Self

from tests.forks import Fork, start_python
from tests.tools.forgetful_changes import Losses
from tests.waiting import wait_readable

PROGRAM = Path(__file__).with_name("forgetful_file_system.py")
UNMOUNT = ("fusermount", "-u", "-z")
DEVICE = Path("/dev/fuse")
ANSWER_SECONDS_MAX = 30.0
END_SECONDS_MAX = 10.0


class MountFailed(Exception):
    """The file system did not come up, or did not answer."""


def reason_without_fuse() -> str | None:
    """Why there can be no mount here, None when there can (tools apart: see `require_tool`)."""
    if not DEVICE.exists():
        return f"needs {DEVICE}, which this machine does not give"
    try:
        os.close(os.open(DEVICE, os.O_RDWR))
    except OSError as error:
        return f"needs {DEVICE}, which cannot be opened here: {error.strerror}"
    return None


class ForgetfulMount(contextlib.AbstractContextManager["ForgetfulMount"]):
    """See the module; `path` is where the files are."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "mount"
        self._directory = directory
        self._process: subprocess.Popen[bytes] | Fork | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self.path.mkdir(parents=True)
        self._store = tempfile.TemporaryDirectory(dir=self._directory)
        commands, write_end = os.pipe()
        self._commands = os.fdopen(write_end, "wb", buffering=0)
        with os.fdopen(commands, "rb") as stdin, (self._directory / "file-system-stderr").open("wb") as stderr:
            self._process = start_python([self.path, self._store.name], stderr, program=(str(PROGRAM),), stdin=stdin)
        try:
            self._receive()
        except MountFailed:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def close(self) -> None:
        """Unmount and end the process; nothing happens when that was done."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdout is not None
        self._commands.close()
        try:
            process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        # quiet: it is there only when the process could not do it
        subprocess.run([*UNMOUNT, str(self.path)], check=False, capture_output=True)
        self._store.cleanup()

    def ask(self, command: str, **arguments: Any) -> Any:
        """Have a command carried out; raises MountFailed."""
        with self._lock:
            assert self._process is not None
            line = json.dumps({"command": command, **arguments}) + "\n"
            try:
                self._commands.write(line.encode())
            except BrokenPipeError:
                raise MountFailed(self._what_it_said()) from None
            return self._receive()

    def cut(self, seed: int | str, style: str | None = None) -> Losses:
        """The power goes."""
        return Losses(**self.ask("cut", seed=seed, style=style))

    def power_on(self) -> None:
        self.ask("power_on")

    def cut_and_power_on(self, seed: int | str = 0, style: str | None = None) -> Losses:
        """For when nobody uses it."""
        losses = self.cut(seed, style)
        self.power_on()
        return losses

    def add_fault(self, operation: str, pattern: str = "*", **fault: Any) -> None:
        """See `disk_faults.Fault`."""
        self.ask("add_fault", operation=operation, pattern=pattern, **fault)

    def _receive(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        line = b""
        while not line.endswith(b"\n"):
            if not wait_readable(self._process.stdout, ANSWER_SECONDS_MAX):
                raise MountFailed(f"no answer in {ANSWER_SECONDS_MAX} s; {self._what_it_said()}")
            if not (piece := os.read(self._process.stdout.fileno(), 1 << 16)):
                raise MountFailed(self._what_it_said())
            line += piece
        answer = json.loads(line)
        if "error" in answer:
            raise MountFailed(answer["error"])
        return answer["answer"]

    def _what_it_said(self) -> str:
        said = (self._directory / "file-system-stderr").read_text(encoding="utf-8")
        return f"the file system said: {said or 'nothing'}"
