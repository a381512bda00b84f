"""The tables of a trace and their columns.

Rules: this file is the one declaration of the Parquet side; docs/trace-format.md explains it to people. The order of
the columns is the order in the files. `run` joins the tables and stands first; in raw ring files it is left out,
because a ring belongs to one run. Stamps end in `_ns` and are nanoseconds of one monotonic clock.
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
    """The stamps of a request, in the order in which they are taken."""

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
"""The two stamps that each stage lies between. LaterSteps is a part of Local, CommitWait of Remote, ResponseOrderWait
of ResponseQueue; Kafka measures all but these three."""


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
    """The columns of a table as Spark's DDL."""
    return ", ".join(f"`{name}` {kind}" for name, kind in TABLES[table].items())


LATER_COLUMNS: Final[dict[str, str | None]] = {
    "variant": "",
    "factors": "{}",
    "offered_of": None,
    "offered_share": None,
    "offered_per_s": None,
}
"""Columns of `runs` that older traces do not have, and what stands there in their place."""
LATER_STAMPS: Final = {"decided_ns": "handled_ns"}
"""Columns of `requests` that traces of schema 1 do not have, and the one that stands there in their place: in those the
later steps of a request count as Remote."""

OPTIONAL_COLUMNS: Final = {"commits": ("is_on_loop",)}
"""Columns by table that traces before version 0.3 do not have; they are null then."""

LATER_TABLES: Final = ("store",)
"""Tables that older traces do not have: they are empty then."""

RING_TABLES: Final = tuple(name for name in TABLES if name != "runs")
BROKER_TABLES: Final = ("requests", "appends", "commits", "mutes", "queues", "store")
"""What the broker writes; only traced runs have them."""

ABLATION_MODES: Final = ("mute-off", "group-commit", "own-queues", "both")
SELF_EXPERIMENT: Final = "self"
"""The experiment that compares a mode with itself (A/A)."""
REPLAY_CLIENT: Final = "replay"
RAW_CLIENT: Final = "raw"
COMMAND_CLIENT: Final = "command"
"""A client of the user (`compare --client`)."""
READER_CLIENT: Final = "raw-reads"
PAIRS_CLIENT: Final = "publish-to-consume"
"""Pairs of a producer and a consumer of confluent-kafka; latency counts until the consumer has a message."""
PRODUCE_API: Final = 0
