"""A broker in a process of its own, with or without its archiver, for the other scripts here.

Run as `archiving_broker.py hoarding|archiving serve ...` it is that broker.
"""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import trio

from pipeline_broker.cli import main as command_line
from pipeline_broker.measure.experiment.broker_process import python_environment
from pipeline_broker.node import upkeep

__all__ = ["ARCHIVING", "HOARDING", "broker", "broker_process"]

HOARDING = "hoarding"
ARCHIVING = "archiving"


class NoMaintenance(upkeep.LogMaintenance):
    """Archives nothing, so that everything stays in the journal."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """See LogMaintenance."""
        task_status.started()


@contextlib.contextmanager
def broker(folder: Path, kind: str, *options: str) -> Iterator[int]:
    """A broker that serves: its port.

    Args:
        folder: its data.
        kind: HOARDING or ARCHIVING.
        options: of `serve`.
    """
    with broker_process(__file__, kind, "serve", "--data", str(folder), *options) as port:
        yield port


@contextlib.contextmanager
def broker_process(script: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[int]:
    """A script that serves in a process of its own: its port."""
    command = [sys.executable, script, *arguments, "--port", "0"]
    environment = python_environment() if environment is None else environment
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().split()[2].rpartition(":")[2])
        finally:
            process.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    if sys.argv[1] == HOARDING:
        upkeep.LogMaintenance = NoMaintenance  # type: ignore[misc]  # in this process alone
    command_line(sys.argv[2:])
