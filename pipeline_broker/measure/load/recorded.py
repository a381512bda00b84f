"""The replay of a broker's trace: sends its produce requests again, at the times at which they arrived.

Each recorded connection becomes one connection of the replay. Requests have their recorded size and made-up records,
because a trace contains no records. Other requests are ignored.
"""

import itertools
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.security import read_security
from pipeline_broker.measure.load.client import Driven, Recording, bounded, connections_to, measuring, prepared
from pipeline_broker.measure.load.conversation import converse
from pipeline_broker.measure.load.exchange import Exchange
from pipeline_broker.measure.load.options import IN_FLIGHT_MAX, LoadOptions
from pipeline_broker.measure.load.pace import NS_PER_S, OpenPace
from pipeline_broker.measure.load.requests import ProduceInOrder, ProduceTemplate, Requests
from pipeline_broker.measure.load.template import error_position, produce_frame
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.traces.ring_file import RingFileError, read
from pipeline_broker.wire.registry import ApiKey

RING_NAME = "requests.ring"
FURTHER_RINGS = "requests-*.ring"
SIZES_MAX = 256
"""Maximum of distinct request sizes. If a trace has more, a request is sent with the nearest smaller one of these."""
REQUEST_BYTES_MAX = 16 << 20
LEAD_NS = 50_000_000


@attrs.frozen(slots=True)
class RecordedRequest:
    """A produce request of a trace.

    Attributes:
        connection: index of the recorded connection, counted from 0.
        offset_ns: time of arrival, counted from the first request.
        size_bytes: size of the whole request.
    """

    connection: int
    offset_ns: int
    size_bytes: int


def read_trace(path: Path) -> list[RecordedRequest]:
    """Return the produce requests of a trace in the order of their arrival.

    Args:
        path: a `requests.ring` that a broker wrote, or the folder that contains it and the files that follow it.

    Raises:
        ClientError: the file is missing or damaged, or contains no produce request.
    """
    files = [path / RING_NAME, *sorted(path.glob(FURTHER_RINGS))] if path.is_dir() else [path]
    rows: list[tuple[int, ...]] = []
    for file in files:
        try:
            rows += read(file).rows("received_ns", "connection", "request_bytes", "api")
        except (OSError, RingFileError) as error:
            raise ClientError(f"cannot read {file}: {getattr(error, 'strerror', None) or error}") from None
    produced = sorted(row[:-1] for row in rows if row[-1] == ApiKey.PRODUCE)
    if not produced:
        raise ClientError(
            f"{files[0]} has no Produce request in {len(rows)} rows, so nothing can be replayed."
            " Record a load that produces"
        )
    first_ns = produced[0][0]
    numbers: dict[int, int] = {}
    return [
        RecordedRequest(numbers.setdefault(connection, len(numbers)), received_ns - first_ns, size)
        for received_ns, connection, size in produced
    ]


def plan(recorded: Sequence[RecordedRequest], speed: float) -> tuple[list[list[int]], list[list[int]], list[int]]:
    """Return the intended times and sizes of the requests of each connection.

    Args:
        recorded: requests in the order of their arrival.
        speed: factor by which the replay is faster than the recording.

    Returns:
        for each connection the times in ns, for each connection the indexes of its sizes, and the sizes in bytes.
    """
    sizes = sorted({it.size_bytes for it in recorded})
    if len(sizes) > SIZES_MAX:
        sizes = [sizes[number * len(sizes) // SIZES_MAX] for number in range(SIZES_MAX)]
    index_of: dict[int, int] = {}
    moments: list[list[int]] = [[] for _ in range(max(it.connection for it in recorded) + 1)]
    variants: list[list[int]] = [[] for _ in moments]
    for it in recorded:
        if it.size_bytes not in index_of:
            index_of[it.size_bytes] = max(0, sum(size <= it.size_bytes for size in sizes) - 1)
        moments[it.connection].append(round(it.offset_ns / speed))
        variants[it.connection].append(index_of[it.size_bytes])
    return moments, variants, sizes


async def drive_recorded(
    options: LoadOptions,
    recorded: Sequence[RecordedRequest],
    speed: float,
    record: Callable[[Requests], Recording],
) -> Driven[Recording]:
    """Replay a trace.

    Args:
        options: only host, port, topic, partitions, acks, security and timeout_s are used.
        speed: factor by which the replay is faster than the recording.
        record: returns a new recorder for a connection that sends the given requests.

    Raises:
        ClientError: the broker is unreachable, refuses, or stops answering.
    """
    security = read_security(dict(options.security))
    target = await prepared(options.host, options.port, options.topic, options.partitions, options.timeout_s, security)
    moments, variants, sizes = plan(recorded, speed)
    nodes = [target.nodes[index % len(target.nodes)] for index in range(len(moments))]
    position = error_position(target)
    requests: list[Requests] = []
    for index, (node, order) in enumerate(zip(nodes, variants, strict=True)):
        partition = node.partitions[index % len(node.partitions)]
        empty = len(produce_frame(target, partition, _batch(0), options.acks))
        frames = {it: produce_frame(target, partition, _batch(sizes[it] - empty), options.acks) for it in set(order)}
        template = ProduceTemplate(tuple(frames.get(it, b"") for it in range(len(sizes))), position)
        requests.append(ProduceInOrder(template, iter(order)))
    async with connections_to(nodes, options.timeout_s, security) as connections:
        with measuring() as clock:
            start_ns = time.monotonic_ns() + LEAD_NS
            recorders = [record(it) for it in requests]
            exchanges = []
            for it, recorder, offsets in zip(requests, recorders, moments, strict=True):
                recorder.measured_from_ns = start_ns
                pace = OpenPace(map(start_ns.__add__, offsets), IN_FLIGHT_MAX)
                exchanges.append(Exchange(it, pace, recorder, is_answered=options.acks != 0))
            last_ns = max(itertools.chain.from_iterable(moments))
            with bounded((LEAD_NS + last_ns) / NS_PER_S + options.timeout_s, exchanges):
                await converse(connections, exchanges)
    return Driven(recorders, exchanges, [], clock)


def _batch(value_bytes: int) -> bytes:
    # Length fields inside a batch grow with the value, so a request may be a few bytes larger than recorded.
    size = min(max(0, value_bytes), REQUEST_BYTES_MAX)
    return build_batch([NewRecord(bytes(size), timestamp=time.time_ns() // 1_000_000)])
