"""What can go wrong in the log.

Rules of this file: it imports nothing of ours; errors that a client is answered with carry the *name* of their Kafka
error code, as those of records do; the others end the broker's start or its service and never reach a client.
"""


class LogError(Exception):
    """A request to a partition log that cannot be granted."""

    error_name = "UNKNOWN_SERVER_ERROR"


class OffsetOutOfRange(LogError):
    """Below the start or above the end of the log."""

    error_name = "OFFSET_OUT_OF_RANGE"


class InvalidProducerEpoch(LogError):
    """A newer instance of this producer has written: this one is fenced."""

    error_name = "INVALID_PRODUCER_EPOCH"


class OutOfOrderSequence(LogError):
    """Not the batch that follows the producer's last one: an earlier batch must come (again) first."""

    error_name = "OUT_OF_ORDER_SEQUENCE_NUMBER"


class InvalidTxnState(LogError):
    """A batch outside of transactions, of a producer that has one open."""

    error_name = "INVALID_TXN_STATE"


class TransactionCoordinatorFenced(LogError):
    """A newer transaction coordinator has written: this one speaks for nobody any more."""

    error_name = "TRANSACTION_COORDINATOR_FENCED"


class DamagedSegment(LogError):
    """What a segment file holds is not what was written to it; nothing from there on is served.

    Attributes:
        name: of the file in its store.
        position: where in the file the first bad byte may be.
        offset: of a record that was wanted and cannot be read, of the first one if that is known; -1 for none.
    """

    error_name = "CORRUPT_MESSAGE"

    def __init__(self, name: str, position: int, offset: int, reason: str) -> None:
        where = f"at byte {position}" + (f", offset {offset}" if offset >= 0 else "")
        super().__init__(f"{name} is damaged {where}: {reason}")
        self.name = name
        self.position = position
        self.offset = offset
        self.reason = reason


class SegmentGone(LogError):
    """The segment was deleted or replaced while it was read: what is there now must be asked for anew."""

    error_name = "KAFKA_STORAGE_ERROR"  # clients try again


class DamagedIndexError(Exception):
    """An index file that cannot be the one that was written; it is made anew from its segment."""


class ShortFile(Exception):
    """A file ends before the place where it is to be continued."""


class JournalFailed(Exception):
    """A write or sync failed: nothing after it may be acknowledged, in this life of the broker."""


class JournalCorrupt(Exception):
    """The journal is damaged where it was durable: starting would lose acknowledged records."""


class RecycledError(Exception):
    """A place in the journal is gone: the archive holds what was there."""


class ManifestDamaged(Exception):
    """What the archive holds cannot be read: starting would lose acknowledged records."""
