"""A load over several processes, which start at the same time.

Each child runs `pipeline_broker.measure.load.worker` and exchanges JSON lines with its parent: its options, "ready",
the common start time, its figures.
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

START_IN_NS = 100_000_000  # the time that every child has to read the common start


def run_processes(options: LoadOptions, processes: int) -> Measurement:
    """Run a load and distribute its connections over processes. All children have ended when it returns or raises.

    Raises:
        ClientError: as `client.drive`, or a process ended early or timed out.
    """
    options.check()
    shares = [part for part in shared(options, processes) if part.connections]
    with _children(shares) as children:
        for child, part in zip(children, shares, strict=True):
            _send(child, encoded(part))
        for child in children:
            _receive(child, options.timeout_s * 2)
        start_ns = time.monotonic_ns() + START_IN_NS
        for child in children:
            _send(child, start_ns)
        limit_s = options.seconds + options.timeout_s * 2
        return merged(Measurement.decoded(_receive(child, limit_s)) for child in children)


def shared(options: LoadOptions, processes: int) -> list[LoadOptions]:
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


def _send(child: "subprocess.Popen[bytes]", message: object) -> None:
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # the child has failed; its output says why
        child.stdin.write(json.dumps(message).encode() + b"\n")
        child.stdin.flush()


def _receive(child: "subprocess.Popen[bytes]", seconds: float) -> Any:
    assert child.stdout is not None
    line = _read_line(child.stdout, seconds)
    if line is None:
        raise ClientError(f"a load process did not answer within {seconds:g} s")
    answer = json.loads(line) if line else {"failed": "a load process ended unexpectedly"}
    if "failed" in answer:
        raise ClientError(answer["failed"])
    return answer


def _read_line(stream: IO[bytes], seconds: float) -> bytes | None:
    """Read a line: empty at the end of the stream, None after a timeout. A child writes each line in one piece."""
    poll = select.poll()  # `select.select` fails for descriptors above 1023
    poll.register(stream, select.POLLIN)
    return stream.readline() if poll.poll(seconds * 1000) else None
