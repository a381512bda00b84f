"""A client of the user: a command that is executed once per run against a broker.

It may print a JSON object per line with `sent_ns` and `done_ns` (monotonic clock of this machine). Each is a message
that the command timed. Other lines are ignored. Without such lines, the number of requests and their time in
the broker come from the broker's trace.
"""

import json
import resource
import shlex
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pipeline_broker.measure.experiment.broker_process import LINE_BYTES_MAX, ExperimentError, RunningBroker, last_line
from pipeline_broker.measure.experiment.runs import BOOTSTRAP
from pipeline_broker.measure.load.client import LoadResult
from pipeline_broker.traces.client_rows import ClientRow
from pipeline_broker.traces.ring_file import read
from pipeline_broker.wire.registry import ApiKey

COMMAND_S_MAX = 600.0
LINES_MAX = 5_000_000
# A trace file is complete if it did not grow for STILL_S, which is longer than the sleep of the thread that writes it.
STILL_S, SETTLED_S_MAX = 0.2, 10.0


def run_command(command: str, broker: RunningBroker) -> LoadResult:
    """Execute the command, and return a row for each message that it timed or each request that it sent.

    Raises:
        ExperimentError: the command cannot be started, fails, takes too long, or sent no request.
    """
    arguments = [part.replace(BOOTSTRAP, f"{broker.host}:{broker.port}") for part in shlex.split(command)]
    began_ns, began_cpu_s = time.monotonic_ns(), _children_cpu_s()
    with tempfile.TemporaryFile() as output, tempfile.NamedTemporaryFile() as errors:
        try:
            code = subprocess.run(  # noqa: S603 - the user's own command
                arguments, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, timeout=COMMAND_S_MAX, check=False
            ).returncode
        except OSError as error:
            raise ExperimentError(f"cannot run {arguments[0]}: {error.strerror or error}") from None
        except subprocess.TimeoutExpired:
            raise ExperimentError(
                f"{arguments[0]} did not end within {COMMAND_S_MAX:g} s: let it send fewer messages"
            ) from None
        ended_ns = time.monotonic_ns()
        if code:
            last_error = last_line(Path(errors.name)) or "it wrote no error"
            raise ExperimentError(f"{arguments[0]} ended with exit code {code}: {last_error}")
        rows = list(_timed(output))
    if not rows and broker.trace is not None:
        rows = _traced(broker.trace / "requests.ring", began_ns)
    if not rows:
        raise ExperimentError(
            f"{arguments[0]} sent no request, and printed no line with sent_ns and done_ns: "
            f"pass it the broker's address as {BOOTSTRAP}"
        )
    share = (_children_cpu_s() - began_cpu_s) / max(1e-9, (ended_ns - began_ns) / 1e9)
    return LoadResult(rows, began_ns, ended_ns, share)


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _timed(output: IO[bytes]) -> Iterator[ClientRow]:
    output.seek(0)
    for number in range(LINES_MAX):
        line = output.readline(LINE_BYTES_MAX)
        if not line:
            return
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            sent_ns, done_ns = found.get("sent_ns"), found.get("done_ns")
            if type(sent_ns) is int and type(done_ns) is int and 0 < sent_ns <= done_ns < 1 << 63:
                yield ClientRow(0, number, None, None, sent_ns, done_ns, 0, measured=True)


def _traced(path: Path, began_ns: int) -> list[ClientRow]:
    """Return the requests that a broker received since `began_ns`; only Produce requests if it received any."""
    _wait_until_still(path)
    columns = ("api", "connection", "sequence", "received_ns", "sent_ns")
    found = [row for row in read(path).rows(*columns) if row[3] is not None and row[3] >= began_ns and row[4]]
    produced = [row for row in found if row[0] == ApiKey.PRODUCE] or found
    return [
        ClientRow(connection, sequence, None, None, received_ns, sent_ns, 0, measured=True)
        for _, connection, sequence, received_ns, sent_ns in produced
    ]


def _wait_until_still(path: Path) -> None:
    until_s = time.monotonic() + SETTLED_S_MAX
    size = -1
    while time.monotonic() < until_s and (now := path.stat().st_size if path.exists() else 0) != size:
        size = now
        time.sleep(STILL_S)
