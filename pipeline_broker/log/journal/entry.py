"""One record batch on its way to the journal."""

from typing import NamedTuple, Protocol

from pipeline_broker.base.buffer import Buffer
from pipeline_broker.log.journal.offset_index import OffsetIndex
from pipeline_broker.log.leader_epochs import LeaderEpochs
from pipeline_broker.log.segments.policies import LogPolicies


class IndexedLog(Protocol):
    """The part of `PartitionLog` that the journal and the batch sources use.

    Attributes:
        policies: file settings of the topic.
        entry_key: topic id and partition as a journal entry stores them.
        epochs: the leader epochs of the log.
        index: journal positions of the log's batches.
        tail: entries in memory, by base offset.
    """

    topic: str
    partition: int
    policies: LogPolicies
    entry_key: bytes
    epochs: LeaderEpochs
    index: OffsetIndex
    tail: "dict[int, JournalEntry]"

    def __hash__(self) -> int: ...

    def on_durable(self, entry: "JournalEntry") -> None:
        """Make a durable entry visible. Called in commit order."""


class JournalEntry:
    """A record batch with its offsets.

    `PartitionLog.append` creates it, `Journal.write` sets its position, and `PartitionLog.on_durable` makes it visible.
    No other code sets its fields. A plain class with slots, because one is created for every batch produced.
    """

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
        self.position = -1  # global position of the batch, see segment.global_position; -1 until written


class Appended(NamedTuple):
    """The result of an append.

    A duplicate has no entry: the producer receives the offsets of the original batch. While the original is in flight,
    the response must wait for the original's commit. Commits complete in order, so a commit without entries, submitted
    now, completes after the original.

    Attributes:
        log_append_time_ms: -1 unless the topic sets timestamps on append. For a duplicate, the original's timestamp, as
            in Kafka.
    """

    entry: JournalEntry | None
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    duplicate: bool = False
    in_flight: bool = True
