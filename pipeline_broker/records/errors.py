"""Errors of record batches, each with the name of its Kafka error code."""

CHECKSUM, MAGIC, ORDER, NO_KEY = "checksum", "magic", "order", "no key"
"""Faults of records for which Kafka has metrics."""


class RecordError(Exception):
    """A batch that is refused.

    Attributes:
        error_name: name of the Kafka error code.
        fault: CHECKSUM, MAGIC, ORDER or NO_KEY; empty for errors without a metric.
        record_errors: pairs of index in the batch and reason, for each record with an error of its own.
    """

    error_name = "UNKNOWN_SERVER_ERROR"
    fault = ""
    #: True if the response contains the log start offset. Kafka sends it for errors of its later checks.
    tells_log_start = True

    def __init__(self, message: str, record_errors: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.record_errors = record_errors


class CorruptRecord(RecordError):
    """Damaged bytes: an impossible length or magic, or a wrong checksum."""

    error_name = "CORRUPT_MESSAGE"
    tells_log_start = False


class WrongChecksum(CorruptRecord):
    fault = CHECKSUM


class CorruptFirstHeader(CorruptRecord):
    """The first batch header is unreadable, for which Kafka refuses every partition of the request."""


class InvalidRecord(RecordError):
    """Malformed records, or records that a client may not append."""

    error_name = "INVALID_RECORD"


class RecordsOutOfOrder(InvalidRecord):
    """Offsets that do not count up from 0, a record count that does not match them, or a missing sequence number."""

    fault = ORDER


class KeylessRecords(InvalidRecord):
    fault = NO_KEY


class NotOneBatch(InvalidRecord):
    """Bytes that are not exactly one complete batch of magic 2."""

    tells_log_start = False


class OldMagic(NotOneBatch):
    fault = MAGIC


class InvalidTimestamp(RecordError):
    """A create time outside the window that the topic allows."""

    error_name = "INVALID_TIMESTAMP"


class BatchTooLarge(RecordError):
    """A batch larger than `max.message.bytes`, or with records beyond the limits when decompressed."""

    error_name = "MESSAGE_TOO_LARGE"
    tells_log_start = False


class RecordListTooLarge(RecordError):
    # A batch larger than a segment.
    error_name = "RECORD_LIST_TOO_LARGE"
    tells_log_start = False


class UnsupportedCompression(RecordError):
    # Zstandard in a Produce request below version 7.
    error_name = "UNSUPPORTED_COMPRESSION_TYPE"
    tells_log_start = False


class TransactionalRecords(RecordError):
    """Records of a transaction that the producer has not begun."""

    error_name = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED"
    tells_log_start = False


class UnknownCompression(RecordError):
    """An unknown codec id, for which Kafka answers UNKNOWN_SERVER_ERROR."""


class UnreadableCompression(RecordError):
    """Records that cannot be decompressed. Kafka answers UNKNOWN_SERVER_ERROR, which clients do not retry."""
