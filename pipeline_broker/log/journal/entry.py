"""One record batch on its way to the disk.

Rules of this file: an entry is made by `PartitionLog.append`, placed by `Journal.write`, and made visible by
`PartitionLog.on_durable`; nobody else sets its fields. It is a plain class with slots because one is made for every
batch produced.
"""

from typing import Final, NamedTuple, Protocol

from pipeline_broker.log.journal.offset_index import OffsetIndex
from pipeline_broker.log.segments.policies import LogPolicies

Buffer = bytes | bytearray | memoryview

LEADER_EPOCH: Final = 0  # one broker: leadership never changes


class IndexedLog(Protocol):
    """The log of a partition, as the journal and the sources of its batches see it: it is `PartitionLog`.

    Attributes:
        policies: what its topic's settings say.
        entry_key: the same, as it stands in the journal.
        index: where its batches are in the journal.
        tail: its entries that are in memory, by their first offset.
    """

    topic: str
    partition: int
    policies: LogPolicies
    entry_key: bytes
    index: OffsetIndex
    tail: "dict[int, JournalEntry]"

    def __hash__(self) -> int: ...

    def on_durable(self, entry: "JournalEntry") -> None:
        """The entry's commit completed; called in the order of the commits."""


class JournalEntry:
    """A record batch with its offsets; what a pending produce hands to the committer."""

    __slots__ = (
        "base_offset",
        "last_offset",
        "log",
        "max_timestamp",
        "parts",
        "position",
        "size_bytes",
    )

    def __init__(
        self,
        log: IndexedLog,
        base_offset: int,
        last_offset: int,
        max_timestamp: int,
        parts: tuple[Buffer, ...],
        size_bytes: int,
    ) -> None:
        self.log = log
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.max_timestamp = max_timestamp
        self.parts = parts
        self.size_bytes = size_bytes
        self.position = -1  # of the batch in the journal, see segment.global_position


class Appended(NamedTuple):
    """What an append came to.

    A duplicate has no entry: it is answered with its original's offsets. While the original is still on the way to
    the disk (`in_flight`), that answer must wait for it. As commits complete in order, submitting a pending without
    entries is enough: it completes behind everything submitted before it.
    """

    entry: JournalEntry | None
    base_offset: int
    last_offset: int
    log_append_time_ms: int  # -1 unless the topic stamps its records, or for a duplicate, as Kafka's, its timestamp
    duplicate: bool = False
    in_flight: bool = True
