"""Errors of the log, the journal and the archive.

A `LogError` becomes an error code in a response; `error_name` is its name in Kafka's protocol. The other errors stop
startup or the broker, or are handled inside this package.
"""

REMEDY = "Run `pipeline-broker inspect` to see the damage, stop the broker, and restore its data from a backup"
"""Ends the log line of damage."""


class LogError(Exception):
    error_name = "UNKNOWN_SERVER_ERROR"


class OffsetOutOfRange(LogError):
    error_name = "OFFSET_OUT_OF_RANGE"


class InvalidProducerEpoch(LogError):
    """A fenced producer: a newer instance with a higher epoch has written to the partition."""

    error_name = "INVALID_PRODUCER_EPOCH"


class OutOfOrderSequence(LogError):
    """A sequence gap: the batch does not follow the producer's last one, so an earlier batch is missing."""

    error_name = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class InvalidTxnState(LogError):
    """A non-transactional batch from a producer with an open transaction."""

    error_name = "INVALID_TXN_STATE"


class TransactionCoordinatorFenced(LogError):
    """A marker from a replaced transaction coordinator: a newer coordinator epoch has written to the partition."""

    error_name = "TRANSACTION_COORDINATOR_FENCED"


class DamagedSegment(LogError):
    """A segment file whose bytes differ from those written. Nothing at or after the damage is served.

    Attributes:
        name: the file in its store.
        position: position of the first byte that may be damaged.
        offset: the requested offset that cannot be read, or the first damaged one if known; -1 if neither is known.
        reason: part of the message.
    """

    error_name = "CORRUPT_MESSAGE"

    def __init__(self, name: str, position: int, offset: int, reason: str) -> None:
        where = f"at byte {position}" + (f", offset {offset}" if offset >= 0 else "")
        super().__init__(f"{name} is damaged {where}: {reason}")
        self.name = name
        self.position = position
        self.offset = offset
        self.reason = reason


class GivenUp(LogError):
    """An append to a partition that this broker has given up. The producer retries at the next leader."""

    error_name = "NOT_LEADER_OR_FOLLOWER"


class SegmentGone(LogError):
    """A segment that was deleted or replaced during a read. The caller must look up the current segments again."""

    error_name = "KAFKA_STORAGE_ERROR"  # retriable, so clients fetch again and find the current segments


class DamagedIndexError(Exception):
    """An index file that does not match its manifest entry or its segment. It is rebuilt from the segment."""


class ShortFile(Exception):
    """A file that ends before the position at which a write should continue it."""


class JournalFailed(Exception):
    """A failed write or sync of the journal. The process must acknowledge nothing after it, and ends."""


class JournalCorrupt(Exception):
    """Damage to the journal below a durable position. Startup would lose acknowledged records."""


class RecycledError(Exception):
    """A read of a recycled journal position. The archive holds its records."""


class ManifestDamaged(Exception):
    """An unreadable manifest of the archive, or one of another archive. Startup would lose acknowledged records."""
