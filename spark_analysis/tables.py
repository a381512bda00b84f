"""The tables of a trace and their columns: the declaration of the Parquet files.

docs/reference/trace-format.md describes them. Columns are listed in the order of the files. `run` comes first and joins
the tables; raw ring files leave it out, because a ring belongs to one run. Columns that end in `_ns` are nanoseconds of
one monotonic clock.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

ColumnType = Literal["int", "bigint", "boolean", "double", "string"]
Columns = dict[str, ColumnType]

SCHEMA_VERSION: Final = 2
SCHEMAS_READ: Final = (1, SCHEMA_VERSION)
SUMMARY_SCHEMA: Final = 1
"""Version of `summary.json`."""


@attrs.frozen(kw_only=True)
class Stamps:
    """The stamps of a request, in their order."""

    received_ns: int
    enqueued_ns: int
    dequeued_ns: int
    handled_ns: int
    decided_ns: int
    submitted_ns: int | None
    durable_ns: int | None
    completed_ns: int
    released_ns: int
    send_started_ns: int
    sent_ns: int


REQUEST_STAMPS: Final = tuple(stamp.name for stamp in attrs.fields(Stamps))
STAGES: Final[dict[str, tuple[str, str]]] = {
    "RequestQueue": ("received_ns", "dequeued_ns"),
    "Local": ("dequeued_ns", "decided_ns"),
    "LaterSteps": ("handled_ns", "decided_ns"),
    "Remote": ("decided_ns", "completed_ns"),
    "CommitWait": ("submitted_ns", "durable_ns"),
    "ResponseOrderWait": ("completed_ns", "released_ns"),
    "ResponseQueue": ("completed_ns", "send_started_ns"),
    "ResponseSend": ("send_started_ns", "sent_ns"),
    "Total": ("received_ns", "sent_ns"),
}
"""The first and last stamp of each stage. LaterSteps is a part of Local, CommitWait of Remote, ResponseOrderWait of
ResponseQueue; Kafka measures all stages except these three."""


def _stamps(*names: str) -> Columns:
    return dict.fromkeys(names, "bigint")


TABLES: Final[dict[str, Columns]] = {
    "runs": {
        "run": "int",
        "round": "int",
        "traced": "boolean",
        "mode": "string",
        "side": "int",
        "client": "string",
        "in_flight": "int",
        "connections": "int",
        "commit_delay_ms": "double",
        "flush": "string",
        "settings": "string",
        "machine": "string",
        "client_cpu_share": "double",
        "lost_rows": "bigint",
        "variant": "string",
        "factors": "string",
        "offered_of": "string",
        "offered_share": "double",
        "offered_per_s": "double",
    },
    "requests": {
        "run": "int",
        "connection": "int",
        "sequence": "bigint",
        "api": "int",
        "version": "int",
        "correlation_id": "int",
        "queue": "int",
        "depth": "int",
        "request_bytes": "bigint",
        "response_bytes": "bigint",
        "acks": "int",
        "commit": "bigint",
        "outcome": "string",
        **_stamps(*REQUEST_STAMPS),
    },
    "appends": {
        "run": "int",
        "connection": "int",
        "sequence": "bigint",
        "commit": "bigint",
        "topic": "string",
        "partition": "int",
        "base_offset": "bigint",
        "last_offset": "bigint",
    },
    "commits": {
        "run": "int",
        "commit": "bigint",
        "entries": "int",
        "bytes": "bigint",
        **_stamps("started_ns", "written_ns", "durable_ns", "completed_ns"),
        "is_on_loop": "boolean",
    },
    "mutes": {"run": "int", "connection": "int", "reason": "string", **_stamps("began_ns", "ended_ns")},
    "queues": {"run": "int", "queue": "int", "at_ns": "bigint", "depth": "int"},
    "store": {
        "run": "int",
        "operation": "string",
        "outcome": "string",
        "requests": "int",
        "sent_bytes": "bigint",
        "received_bytes": "bigint",
        **_stamps("began_ns", "ended_ns"),
    },
    "client": {
        "run": "int",
        "connection": "int",
        "sequence": "bigint",
        "correlation_id": "int",
        **_stamps("intended_ns", "sent_ns", "answered_ns"),
        "error": "int",
        "measured": "boolean",
    },
}


def declaration(table: str) -> str:
    return ", ".join(f"`{name}` {kind}" for name, kind in TABLES[table].items())


LATER_COLUMNS: Final[dict[str, str | None]] = {
    "variant": "",
    "factors": "{}",
    "offered_of": None,
    "offered_share": None,
    "offered_per_s": None,
}
"""Columns of `runs` that older traces lack, and their default values."""
LATER_STAMPS: Final = {"decided_ns": "handled_ns"}
"""Columns of `requests` that schema 1 lacks, and the columns used instead. So in those traces the later steps of a
request count as Remote."""

OPTIONAL_COLUMNS: Final = {"commits": ("is_on_loop",)}
"""Columns by table that traces before version 0.3 lack; they are null there."""

LATER_TABLES: Final = ("store",)
"""Tables that older traces lack; they are empty there."""

RING_TABLES: Final = tuple(name for name in TABLES if name != "runs")
BROKER_TABLES: Final = ("requests", "appends", "commits", "mutes", "queues", "store")
"""Tables that the broker writes, in traced runs only."""

ABLATION_MODES: Final = ("mute-off", "group-commit", "own-queues", "both")
SELF_EXPERIMENT: Final = "self"
"""The experiment that compares a mode with itself (A/A)."""
REPLAY_CLIENT: Final = "replay"
RAW_CLIENT: Final = "raw"
COMMAND_CLIENT: Final = "command"
"""The user's own client (`compare --client`)."""
READER_CLIENT: Final = "raw-reads"
PAIRS_CLIENT: Final = "publish-to-consume"
"""Pairs of a confluent-kafka producer and consumer; latency counts until the consumer has the message."""
PRODUCE_API: Final = 0
