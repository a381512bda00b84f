"""The trace tables of a broker: requests, appends, commits, mutes, queue depths and object store requests.

Columns are listed in the order in which a row is packed.
"""

from enum import IntEnum

from pipeline_broker.traces.ring_file import I1, I2, I4, I8, Table, columns_of
from stages.timeline import NO_STAMP, STAMPS, Stamps

__all__ = ["APPENDS", "BROKER_TABLES", "COMMITS", "MUTES", "QUEUES", "REQUESTS", "STORE", "Outcome", "TracedRequest"]


class Outcome(IntEnum):
    """The end of a request: answered, ended without an answer, connection closed by the handler, or connection lost."""

    SEND, NOOP, CLOSE, DROPPED = range(4)


class TracedRequest(Stamps):
    """A row of REQUESTS with one attribute per column. A missing stamp is 0, as in `Stamps`; the file stores NO_STAMP.

    Args:
        values: all columns of the row, in their order.
    """

    connection: I4
    sequence: I8
    api: I2
    version: I2
    correlation_id: I4
    queue: I4
    depth: I4
    request_bytes: I4
    response_bytes: I4
    acks: I2
    commit: I8
    outcome: I1

    def __init__(self, values: tuple[int, ...]) -> None:
        # The stamps are the last columns.
        own = len(values) - len(STAMPS)
        stamps = [0 if stamp == NO_STAMP else stamp for stamp in values[own:]]
        vars(self).update(zip(REQUEST_COLUMNS, (*values[:own], *stamps), strict=True))


REQUESTS = Table(
    "requests",
    (*columns_of(TracedRequest), *((stamp, "i8") for stamp in STAMPS)),
    {"outcome": {int(outcome): outcome.name.lower() for outcome in Outcome}},
)
REQUEST_COLUMNS = tuple(name for name, _ in REQUESTS.columns)
APPENDS = Table(
    "appends",
    (
        ("connection", "i4"),
        ("sequence", "i8"),
        ("commit", "i8"),
        ("topic", "string"),
        ("partition", "i4"),
        ("base_offset", "i8"),
        ("last_offset", "i8"),
    ),
)
COMMITS = Table(
    "commits",
    (
        ("commit", "i8"),
        ("entries", "i4"),
        ("bytes", "i8"),
        ("started_ns", "i8"),
        ("written_ns", "i8"),
        ("durable_ns", "i8"),
        ("completed_ns", "i8"),
        ("is_on_loop", "i1"),
    ),
)
MUTES = Table("mutes", (("connection", "i4"), ("reason", "i1"), ("began_ns", "i8"), ("ended_ns", "i8")))
QUEUES = Table("queues", (("queue", "i4"), ("at_ns", "i8"), ("depth", "i4")))
STORE = Table(
    "store",
    (
        ("operation", "string"),
        ("outcome", "string"),
        ("requests", "i4"),
        ("sent_bytes", "i8"),
        ("received_bytes", "i8"),
        ("began_ns", "i8"),
        ("ended_ns", "i8"),
    ),
)
BROKER_TABLES = (REQUESTS, APPENDS, COMMITS, MUTES, QUEUES, STORE)
