"""What the records of control batches say, for the reports.

Rules of this file: what makes no sense is shown as the bytes that it is; whether it is damage is judged elsewhere.
"""

from pipeline_broker.records.control_batch import EndMarker, parse_marker
from pipeline_broker.records.errors import InvalidRecord
from pipeline_broker.records.record import Record

__all__ = ["marker_of"]


def marker_of(record: Record) -> EndMarker | None:
    """The end of a transaction; None for a record that says something else, or nothing that makes sense."""
    try:
        return parse_marker(record.key, record.value)
    except InvalidRecord:
        return None
