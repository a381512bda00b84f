"""The requests of one connection as bytes: produce requests with and without idempotence, reads, and a mix of both.

Requests are built before a run. While it runs, only three things are patched: correlation ids, the sequence and
checksum of idempotent batches, and the offset of a read.
"""

import itertools
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.client.errors import ClientError
from pipeline_broker.records.batch import HEADER_SIZE, LENGTH_OVERHEAD, read_header
from pipeline_broker.records.checksum import crc32c
from pipeline_broker.wire.codec import DecodeError, decode
from pipeline_broker.wire.header import read_response_header
from pipeline_broker.wire.messages.data.fetch import FetchResponse

PRODUCE, READ, END = 0, 1, 2
"""Kinds of requests."""
CORRELATION_POSITION = 8  # after length, API key and version
FETCH_KEY = 1
CORRELATION = struct.Struct(">i")
_SEQUENCE_MASK = (1 << 31) - 1
_CRC = struct.Struct(">I")
_PRODUCER = struct.Struct(">qhi")  # id, epoch, base sequence
_OFFSET = struct.Struct(">q")
_BATCH_LENGTH = struct.Struct(">8xi")
# Positions in a batch: its checksum, the first byte that the checksum covers, and the producer.
_CRC_POSITION, _CHECKED_POSITION, _PRODUCER_POSITION = 17, 21, 43


ReadAnswer = Callable[[int, memoryview], int]


class Requests(Protocol):
    """The requests of one connection.

    Attributes:
        error_position: position of the error code in each framed response; 0 if it differs between responses.
        read: returns the error code of a framed response, given its correlation id; None if `error_position` is used.
        kinds: kinds of the correlation ids, as a cycle.
    """

    @property
    def error_position(self) -> int: ...

    @property
    def read(self) -> ReadAnswer | None: ...

    @property
    def kinds(self) -> Sequence[int]: ...

    def frames(self, first_id: int, count: int) -> bytes:
        """Return the next `count` requests, framed, with correlation ids from `first_id`."""


@attrs.frozen(slots=True)
class ProduceTemplate:
    """Framed produce requests with different contents.

    Attributes:
        requests: frames with correlation id 0.
        error_position: position of the error code in a framed response.
        partitions: the partition of each request.
        batch_positions: the position of the batch in each request.
    """

    requests: tuple[bytes, ...]
    error_position: int
    partitions: tuple[int, ...] = ()
    batch_positions: tuple[int, ...] = ()


class ProduceInTurn:
    """Produce requests of one size, one variant after the other.

    All variants lie in one buffer, so sending only patches correlation ids and copies one slice.

    Args:
        template: one request for each partition.
        window: usual maximum of requests per call of `frames`; larger calls are split.
        first: index of the first variant.
    """

    kinds: Sequence[int] = (PRODUCE,)
    read: ReadAnswer | None = None

    def __init__(self, template: ProduceTemplate, window: int, first: int = 0) -> None:
        self._window = window
        self.error_position = template.error_position
        count = len(template.requests)
        self._size = len(template.requests[0])
        self._variants = count
        self._first = first
        # The buffer holds a whole window after each variant, so a window never wraps around.
        self._buffer = bytearray(b"".join(template.requests[index % count] for index in range(window + count - 1)))

    def frames(self, first_id: int, count: int) -> bytes:
        if count <= self._window:
            return self._piece(first_id, count)
        end, window = first_id + count, self._window
        return b"".join(self._piece(start, min(window, end - start)) for start in range(first_id, end, window))

    def _piece(self, first_id: int, count: int) -> bytes:
        size = self._size
        start = (first_id + self._first) % self._variants * size
        buffer, pack_into = self._buffer, CORRELATION.pack_into
        position = start + CORRELATION_POSITION
        for correlation_id in range(first_id, first_id + count):
            pack_into(buffer, position, correlation_id)
            position += size
        return bytes(memoryview(buffer)[start : start + count * size])


class ProduceInOrder:
    """Produce requests in a given order, such as that of keys or recorded events.

    Args:
        order: indexes of the variants; must not end before the run does.
    """

    kinds: Sequence[int] = (PRODUCE,)
    read: ReadAnswer | None = None

    def __init__(self, template: ProduceTemplate, order: Iterator[int]) -> None:
        self.error_position = template.error_position
        self._order = order
        self._parts = [
            (request[:CORRELATION_POSITION], request[CORRELATION_POSITION + 4 :]) for request in template.requests
        ]

    def frames(self, first_id: int, count: int) -> bytes:
        parts: list[bytes] = []
        for correlation_id, variant in enumerate(itertools.islice(self._order, count), first_id):
            head, tail = self._parts[variant]
            parts += (head, CORRELATION.pack(correlation_id), tail)
        return b"".join(parts)


class IdempotentProduce:
    """Produce requests of one idempotent producer: the sequence of each batch continues that of its partition.

    Args:
        order: indexes of the variants.
        records: number of records in each batch.
    """

    kinds: Sequence[int] = (PRODUCE,)
    read: ReadAnswer | None = None

    def __init__(self, template: ProduceTemplate, order: Iterator[int], records: int) -> None:
        self.error_position = template.error_position
        self._order = order
        self._partitions = template.partitions
        self._records = records
        self._frames = [bytearray(request) for request in template.requests]
        self._batch_positions = template.batch_positions
        self._batch_ends = [
            position + LENGTH_OVERHEAD + read_header(request, position).batch_length
            for request, position in zip(template.requests, template.batch_positions, strict=True)
        ]
        self._sequences = dict.fromkeys(template.partitions, 0)
        self._producer = (-1, -1)

    def become(self, producer_id: int, epoch: int) -> None:
        """Use another producer id and epoch from the next request, with sequences that restart at 0."""
        self._producer = (producer_id, epoch)
        self._sequences = dict.fromkeys(self._partitions, 0)

    def frames(self, first_id: int, count: int) -> bytes:
        producer_id, epoch = self._producer
        parts: list[bytes] = []
        for correlation_id, variant in enumerate(itertools.islice(self._order, count), first_id):
            frame, start, end = self._frames[variant], self._batch_positions[variant], self._batch_ends[variant]
            partition = self._partitions[variant]
            sequence = self._sequences[partition]
            # Sequences wrap around to 0 after 2^31 - 1.
            self._sequences[partition] = (sequence + self._records) & _SEQUENCE_MASK
            CORRELATION.pack_into(frame, CORRELATION_POSITION, correlation_id)
            _PRODUCER.pack_into(frame, start + _PRODUCER_POSITION, producer_id, epoch, sequence)
            _CRC.pack_into(frame, start + _CRC_POSITION, crc32c(memoryview(frame)[start + _CHECKED_POSITION : end]))
            parts.append(bytes(frame))
        return b"".join(parts)


@attrs.frozen(slots=True)
class ReadTemplate:
    """Framed fetch requests, one for each partition.

    Attributes:
        requests: frames with correlation id 0.
        offset_position: position of the fetch offset.
        version: version of the Fetch API.
        starts: first offset of each partition.
    """

    requests: tuple[bytes, ...]
    offset_position: int
    version: int
    starts: tuple[int, ...]


class Reads:
    """Fetch requests for all partitions in turn. Each partition is read from its start to its end, repeatedly.

    Attributes:
        bytes_read, batches_read: totals of all answers.
    """

    error_position = 0
    kinds: Sequence[int] = (READ,)

    def __init__(self, template: ReadTemplate, first: int = 0) -> None:
        self._template = template
        self._frames = [bytearray(request) for request in template.requests]
        self._offsets = list(template.starts)
        self._partition = first % len(self._frames)
        self._partition_of: dict[int, int] = {}
        self.bytes_read = self.batches_read = 0

    def frames(self, first_id: int, count: int) -> bytes:
        return b"".join(self.frame(correlation_id) for correlation_id in range(first_id, first_id + count))

    def frame(self, correlation_id: int) -> bytes:
        partition = self._partition
        self._partition = (partition + 1) % len(self._frames)
        self._partition_of[correlation_id] = partition
        frame = self._frames[partition]
        CORRELATION.pack_into(frame, CORRELATION_POSITION, correlation_id)
        _OFFSET.pack_into(frame, self._template.offset_position, self._offsets[partition])
        return bytes(frame)

    def read(self, correlation_id: int, response: memoryview) -> int:
        """Return the error code of a framed Fetch response.

        The partition continues after the last whole batch of the response. Without a batch it restarts at its first
        offset.

        Raises:
            ClientError: the response cannot be decoded.
        """
        partition = self._partition_of.pop(correlation_id)
        try:
            _, position = read_response_header(FETCH_KEY, self._template.version, response[4:])
            answer, _ = decode(FetchResponse, self._template.version, response[4:], position)
        except DecodeError as error:
            raise ClientError(f"the broker's answer to Fetch cannot be decoded: {error}") from None
        if answer.error_code:
            return answer.error_code
        for topic in answer.responses:
            for found in topic.partitions:
                if found.error_code:
                    return found.error_code
                records = found.records
                self._follow(partition, records if isinstance(records, memoryview | bytes) else b"")
        return 0

    def _follow(self, partition: int, records: Buffer) -> None:
        following = self._template.starts[partition]  # an answer without records: restart at the beginning
        last = -1
        position, size = 0, len(records)
        length_of = _BATCH_LENGTH.unpack_from
        while size - position >= HEADER_SIZE:
            end = position + LENGTH_OVERHEAD + length_of(records, position)[0]
            if end > size:
                break  # a fetch response may end in the middle of a batch
            last, position = position, end
            self.batches_read += 1
        if last >= 0:
            header = read_header(records, last)
            following = header.base_offset + header.last_offset_delta + 1
        self.bytes_read += position
        self._offsets[partition] = following


class Mixed:
    """Reads and produce requests, evenly mixed.

    Args:
        read_share: share of reads, between 0 and 1.
    """

    error_position = 0

    def __init__(self, produce: Requests, reads: Reads, read_share: float) -> None:
        self._produce = produce
        self._reads = reads
        self._error = struct.Struct(f">{produce.error_position}xh")
        self.kinds: Sequence[int] = pattern(read_share)

    def frames(self, first_id: int, count: int) -> bytes:
        kinds, period = self.kinds, len(self.kinds)
        return b"".join(
            self._reads.frame(correlation_id)
            if kinds[correlation_id % period] == READ
            else self._produce.frames(correlation_id, 1)
            for correlation_id in range(first_id, first_id + count)
        )

    def read(self, correlation_id: int, response: memoryview) -> int:
        if self.kinds[correlation_id % len(self.kinds)] == READ:
            return self._reads.read(correlation_id, response)
        if len(response) < self._error.size:
            raise ClientError(f"the broker sent {len(response)} bytes, which are not a produce response")
        (error,) = self._error.unpack_from(response)
        return int(error)


def pattern(read_share: float) -> tuple[int, ...]:
    """Return the kinds of 100 successive requests, PRODUCE or READ, with evenly distributed reads.

    Args:
        read_share: share of reads, 0 to 1.
    """
    period = 100
    reads = round(read_share * period)
    return tuple(
        READ if (index + 1) * reads // period > index * reads // period else PRODUCE for index in range(period)
    )
