"""Runs a load in several processes that begin together.

Rules of this file: a child is this interpreter with `pipeline_broker.measure.load.worker`, told its part as one line of
JSON on its standard input. It answers a line when it is connected, is told the start of the common clock, and answers
its figures. A child that fails or ends ends the run; whatever happens, no child is left.
"""

import contextlib
import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import IO, Any

import attrs

from pipeline_broker.client.errors import ClientError
from pipeline_broker.measure.load.measurement import Measurement, merged
from pipeline_broker.measure.load.options import LoadOptions

START_IN_NS = 100_000_000
"""How long after everybody is connected the run begins."""


def run_processes(options: LoadOptions, processes: int) -> Measurement:
    """Run a load, its connections dealt to processes.

    Raises:
        ClientError: as `client.drive`, or a process ended.
    """
    options.check()
    shares = [part for part in shared(options, processes) if part.connections]
    with _children(shares) as children:
        for child, part in zip(children, shares, strict=True):
            _tell(child, encoded(part))
        for child in children:
            _hear(child, options.timeout_s * 2)
        start_ns = time.monotonic_ns() + START_IN_NS
        for child in children:
            _tell(child, start_ns)
        limit_s = options.seconds + options.timeout_s * 2
        return merged(Measurement.decoded(_hear(child, limit_s)) for child in children)


def shared(options: LoadOptions, processes: int) -> list[LoadOptions]:
    """The part of each process: its connections, and which share of the arrivals is its own."""
    each, more = divmod(options.connections, processes)
    return [
        attrs.evolve(
            options,
            connections=each + (share < more),
            share=share,
            shares=processes,
            connections_together=options.connections,
        )
        for share in range(processes)
    ]


def encoded(options: LoadOptions) -> dict[str, Any]:
    """Options as JSON has them."""
    return {**attrs.asdict(options), "arrivals": options.arrivals.value}


@contextlib.contextmanager
def _children(shares: Sequence[LoadOptions]) -> "Iterator[list[subprocess.Popen[bytes]]]":
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "pipeline_broker.measure.load.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for _ in shares
    ]
    try:
        yield children
    finally:
        for child in children:
            child.kill()
            child.wait()
            for stream in (child.stdin, child.stdout):
                if stream is not None:
                    stream.close()


def _tell(child: "subprocess.Popen[bytes]", message: object) -> None:
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has failed, and says why
        child.stdin.write(json.dumps(message).encode() + b"\n")
        child.stdin.flush()


def _hear(child: "subprocess.Popen[bytes]", seconds: float) -> Any:
    assert child.stdout is not None
    line = _read_line(child.stdout, seconds)
    if line is None:
        raise ClientError(f"a load process said nothing for {seconds:g} s")
    answer = json.loads(line) if line else {"failed": "a load process ended"}
    if "failed" in answer:
        raise ClientError(answer["failed"])
    return answer


def _read_line(stream: IO[bytes], seconds: float) -> bytes | None:
    """A line; empty at the end, None when there is none in time. A child writes its lines whole."""
    poll = select.poll()  # whatever the number of the descriptor, unlike `select`
    poll.register(stream, select.POLLIN)
    return stream.readline() if poll.poll(seconds * 1000) else None
