"""A broker process with or without its archiver, used by other benchmarks.

`archiving_broker.py journal-only|archiving serve ...` runs such a broker.
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

__all__ = ["ARCHIVING", "JOURNAL_ONLY", "broker", "broker_process"]

JOURNAL_ONLY = "journal-only"
ARCHIVING = "archiving"


class NoMaintenance(upkeep.LogMaintenance):
    """A `LogMaintenance` that archives nothing, so all records stay in the journal."""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()


@contextlib.contextmanager
def broker(folder: Path, kind: str, *options: str) -> Iterator[int]:
    """Run a broker and yield its port.

    Args:
        folder: its data directory.
        kind: JOURNAL_ONLY or ARCHIVING.
        options: options of `serve`.
    """
    with broker_process(__file__, kind, "serve", "--data", str(folder), *options) as port:
        yield port


@contextlib.contextmanager
def broker_process(script: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[int]:
    """Run a script that serves, in its own process, and yield its port."""
    command = [sys.executable, script, *arguments, "--port", "0"]
    environment = python_environment() if environment is None else environment
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline().split()[2].rpartition(":")[2])
        finally:
            process.send_signal(signal.SIGTERM)


if __name__ == "__main__":
    if sys.argv[1] == JOURNAL_ONLY:
        upkeep.LogMaintenance = NoMaintenance  # type: ignore[misc]  # affects only this process
    command_line(sys.argv[2:])
