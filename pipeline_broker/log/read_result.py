"""The results of reads from a log, and the bounds of one read."""

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import attrs

from pipeline_broker.files.file_system import Buffer

T = TypeVar("T")

BATCHES_PER_READ = 4096
BYTES_PER_READ = 4 << 20  # unless a single batch is larger
SPAN_BYTES_MAX = 1 << 20  # of one system call, unless a single batch is larger


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
