"""The results of log reads, and the limits of one read."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import attrs

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.files.lent_range import LentRange

T = TypeVar("T")

BATCHES_PER_READ = 4096
BYTES_PER_READ = 4 << 20  # a single larger batch is read whole: a fetch must always make progress (KIP-74)
SPAN_BYTES_MAX = 1 << 20  # per system call; a single larger batch is read whole


@attrs.frozen
class ColdRead(Generic[T]):
    """A read that may wait for the disk. Call it in a thread; it touches no state of the log.

    Attributes:
        work: does the read.
        size_bytes: total size of the batches to read.
    """

    work: Callable[[], T]
    size_bytes: int

    def __call__(self) -> T:
        return self.work()


class LentBatches(NamedTuple):
    """Whole batches that lie in a file, and the offset after them."""

    range: LentRange
    end_offset: int


@attrs.frozen
class ReadResult:
    """The whole batches that were in memory or are lent, or the cold read that gets them.

    At the end of the log `parts` is empty and the others are None.
    """

    parts: list[Buffer] = attrs.field(factory=list)
    cold: ColdRead[list[Buffer]] | None = None
    lent: LentBatches | None = None

    @property
    def size_bytes(self) -> int:
        return sum(map(len, self.parts)) if self.lent is None else self.lent.range.size_bytes


class TimestampedOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int
