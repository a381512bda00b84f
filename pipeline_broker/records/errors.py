"""What can be wrong with a record batch.

Rules of this file: it imports nothing; every error carries the *name* of the Kafka error code it is answered
with, because this room knows no messages; an error that concerns single records lists them. Faults that Kafka counts
have a name too.
"""

CHECKSUM, MAGIC, ORDER, NO_KEY = "checksum", "magic", "order", "no key"
"""Faults of records that Kafka counts."""


class RecordError(Exception):
    """A batch that is refused; `record_errors` holds (index in the batch, why) for errors of single records."""

    error_name = "UNKNOWN_SERVER_ERROR"
    fault = ""
    tells_log_start = True
    """Whether the answer tells where the log starts, as Kafka's does for what it finds late."""

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.record_errors = record_errors


class CorruptRecord(RecordError):
    """The bytes are damaged: impossible length or magic, or a checksum that does not match."""

    error_name = "CORRUPT_MESSAGE"
    tells_log_start = False


class WrongChecksum(CorruptRecord):
    """The checksum is not that of the bytes."""

    fault = CHECKSUM


class CorruptFirstHeader(CorruptRecord):
    """The first batch header is unreadable: Kafka then refuses every partition of the request."""


class InvalidRecord(RecordError):
    """Readable, but not what a client may append."""

    error_name = "INVALID_RECORD"


class RecordsOutOfOrder(InvalidRecord):
    """Offsets in the batch that do not count up, or a sequence number that cannot be."""

    fault = ORDER


class KeylessRecords(InvalidRecord):
    """Records without a key, which a compacted topic cannot keep."""

    fault = NO_KEY


class NotOneBatch(InvalidRecord):
    """Not exactly one complete batch of the only magic that may be written."""

    tells_log_start = False


class OldMagic(NotOneBatch):
    """A batch in the format of an earlier time."""

    fault = MAGIC


class InvalidTimestamp(RecordError):
    """A create time outside the window that the topic allows, or an append time set by a client."""

    error_name = "INVALID_TIMESTAMP"


class BatchTooLarge(RecordError):
    """Larger than `max.message.bytes`, as sent or decompressed."""

    error_name = "MESSAGE_TOO_LARGE"
    tells_log_start = False


class RecordListTooLarge(RecordError):
    """Larger than a whole segment may be."""

    error_name = "RECORD_LIST_TOO_LARGE"
    tells_log_start = False


class UnsupportedCompression(RecordError):
    """Zstandard in a request too old for it."""

    error_name = "UNSUPPORTED_COMPRESSION_TYPE"
    tells_log_start = False


class TransactionalRecords(RecordError):
    """Part of a transaction, where none was made sure of."""

    error_name = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    tells_log_start = False


class UnknownCompression(RecordError):
    """A compression id that does not exist; Kafka answers UNKNOWN_SERVER_ERROR."""


class UnreadableCompression(RecordError):
    """Compressed records that cannot be decompressed; Kafka answers UNKNOWN_SERVER_ERROR, which is not retried."""
