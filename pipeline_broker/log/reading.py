"""How batches are read: from the sources in their order, the first that has them.

Rules of this file: the order is tail cache, journal, archive (`LogManager` lists the sources; an archive joins them as
one more). Nothing waits for a disk on the caller's thread: what is not in memory becomes a ColdRead, which is work for
another thread. What one read does is bounded, whatever was asked for; a caller that wants more reads again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import attrs

from pipeline_broker.log.entry import Buffer
from pipeline_broker.log.journal import Journal

if TYPE_CHECKING:
    from pipeline_broker.log.partition_log import PartitionLog

T = TypeVar("T")

BATCHES_PER_READ = 4096
BYTES_PER_READ = 4 << 20  # unless a single batch is larger
GAP_BYTES_MAX = 16 << 10  # skipping so much costs more as a further system call than read and thrown away
SPAN_BYTES_MAX = 1 << 20  # of one system call, unless a single batch is larger
GATHER_BELOW_BYTES = 4096  # batches smaller than this on average are handed on as one buffer


@attrs.frozen
class ColdRead(Generic[T]):
    """A read that must wait for the disk: call it in a thread. It touches no state of the log.

    Attributes:
        work: what is called.
        size_bytes: of the batches that it reads.
    """

    work: Callable[[], T]
    size_bytes: int

    def __call__(self) -> T:
        """Read; raises OSError when the disk cannot."""
        return self.work()


@attrs.frozen
class ReadResult:
    """Whole batches one behind the other, or the work that gets them, or neither at the end of the log."""

    parts: list[Buffer] = attrs.field(factory=list)
    cold: ColdRead[list[Buffer]] | None = None

    @property
    def size_bytes(self) -> int:
        """What was read without waiting."""
        return sum(map(len, self.parts))


class TimestampedOffset(NamedTuple):
    """The answer to a search by time."""

    timestamp: int
    offset: int
    leader_epoch: int


class BatchSource(Protocol):
    """A place that batches can be read from."""

    def read(self, log: "PartitionLog", first: int, end: int) -> ReadResult | None:
        """Batches first to end of the log's index, or fewer but at least one; None when the first is not here."""


def gathered(parts: list[Buffer], size_bytes: int) -> list[Buffer]:
    """Many small parts as one: sending each on its own costs more than the copy."""
    if len(parts) > 1 and size_bytes < GATHER_BELOW_BYTES * len(parts):
        return [b"".join(parts)]
    return parts


@attrs.frozen
class _Span:
    """Neighbouring batches in one segment, read by one system call."""

    place: int
    size_bytes: int
    batches: list[tuple[int, int]]  # start within the span, size

    def cut(self, data: Buffer) -> list[Buffer]:
        view = memoryview(data)
        useful = sum(size for _, size in self.batches)
        if useful == self.size_bytes:
            return [view]
        # Copied out, unless large: what lies between belongs to other partitions and need not stay in memory.
        return gathered([view[start : start + size] for start, size in self.batches], useful)


class JournalSource:
    """A batch source: the journal's files."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def read(self, log: "PartitionLog", first: int, end: int) -> ReadResult | None:
        """See BatchSource."""
        spans = self._spans(log, first, end)
        parts: list[Buffer] = []
        for span in spans:
            data = self._journal.read_cached(span.place, span.size_bytes)
            if data is None:
                break
            parts += span.cut(data)
        if parts:
            return ReadResult(parts)
        size_bytes = sum(size for span in spans for _, size in span.batches)
        return ReadResult(cold=ColdRead(lambda: self._read_cold(spans), size_bytes))

    def _read_cold(self, spans: list[_Span]) -> list[Buffer]:
        parts: list[Buffer] = []
        for span in spans:
            parts += span.cut(self._journal.read(span.place, span.size_bytes))
        return parts

    def _spans(self, log: "PartitionLog", first: int, end: int) -> list[_Span]:
        """Group the batches into system calls. Places in different segments are further apart than any gap."""
        index = log.index
        end = min(end, first + BATCHES_PER_READ, index.run_end(first, BYTES_PER_READ, at_least_one=True))
        spans: list[_Span] = []
        start = stop = index.places[first]
        batches: list[tuple[int, int]] = []
        for number in range(first, end):
            place, size = index.places[number], index.size_of(number)
            if batches and (place - stop > GAP_BYTES_MAX or place + size - start > SPAN_BYTES_MAX):
                spans.append(_Span(start, stop - start, batches))
                start, batches = place, []
            batches.append((place - start, size))
            stop = place + size
        spans.append(_Span(start, stop - start, batches))
        return spans
