"""End markers of transactions, decoded for the reports."""

from pipeline_broker.records.control_batch import EndMarker, parse_marker
from pipeline_broker.records.errors import InvalidRecord
from pipeline_broker.records.record import Record

__all__ = ["marker_of"]


def marker_of(record: Record) -> EndMarker | None:
    """Return the end marker in a control record; None if it is another kind of record, or malformed."""
    try:
        return parse_marker(record.key, record.value)
    except InvalidRecord:
        return None
