"""The tables of a trace and their columns: the declaration of the Parquet files.

docs/reference/trace-format.md shows them. Columns are listed in the order of the files. `run` comes first and joins
the tables; raw ring files leave it out, because a ring belongs to one run. Columns that end in `_ns` are nanoseconds of
one monotonic clock.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import attrs

ColumnType = Literal["int", "bigint", "boolean", "double", "string"]
Columns = dict[str, ColumnType]


class Column(NamedTuple):
    kind: ColumnType
    meaning: str


SCHEMA_VERSION: Final = 2
SCHEMAS_READ: Final = (1, SCHEMA_VERSION)
SUMMARY_SCHEMA: Final = 1
"""Version of `summary.json`."""


@attrs.frozen(kw_only=True)
class Stamps:
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


COLUMNS: Final[dict[str, dict[str, Column]]] = {
    "runs": {
        "run": Column("int", "number of the run"),
        "round": Column("int", "number of the round; runs of both sides with the same load and round are a pair"),
        "traced": Column("boolean", "whether the broker wrote traces"),
        "mode": Column(
            "string",
            "`classic`, `pipelined`; ablation: also `mute-off`, `group-commit`, `own-queues`, `both`; other "
            "brokers: `kafka-synced`, `kafka`, `other`",
        ),
        "side": Column("int", "0 = A, 1 = B; 2 and more: other brokers"),
        "client": Column(
            "string",
            "`raw` (native client), `raw-reads` (native client that reads), `confluent-kafka linger=0`, "
            "`confluent-kafka linger=5`, `publish-to-consume` (pairs of a producer and a consumer of "
            "confluent-kafka), `command` (your own client), `replay`",
        ),
        "in_flight": Column(
            "int",
            "unanswered requests of a connection; confluent-kafka: 5; no meaning for pairs and the replay",
        ),
        "connections": Column("int", "connections; confluent-kafka: producers, or pairs"),
        "commit_delay_ms": Column("double", "delay injected into every commit"),
        "flush": Column("string", "`always` (synced before the acknowledgement) or `os` (page cache)"),
        "settings": Column(
            "string",
            "JSON object: settings besides the mode; `experiment` (table below); `seed` of the order of runs; "
            "`process`, a number that runs on one broker process share",
        ),
        "machine": Column(
            "string",
            "JSON object: processor, cores, system; `date`, `commit`, versions of packages; `command`, which "
            "repeats the experiment with its seed; for this run the shares of the cores' time that processes outside "
            "the experiment used (`others_share`) and that a hypervisor gave to other machines (`steal_share`), 0 "
            "to 1; null if unknown",
        ),
        "client_cpu_share": Column(
            "double",
            "processor time of the client over the time of the run; near 1 the client is the limit",
        ),
        "lost_rows": Column(
            "bigint",
            "rows that did not fit into a ring; if above 0, the ordering audit is incomplete",
        ),
        "variant": Column(
            "string",
            "other distinctions of a load: factors of a sweep (`flush=os pipeline.queues=1`), the offered rate "
            "(`rate=50%-of-classic`), `self` for a mode compared with itself; otherwise empty",
        ),
        "factors": Column("string", "JSON object with all factors of the run (table below)"),
        "offered_of": Column(
            "string",
            "open loop whose rate is a share of a capacity: the mode with that capacity; otherwise null",
        ),
        "offered_share": Column("double", "open loop: this share, such as 0.5; null for an absolute rate"),
        "offered_per_s": Column(
            "double",
            "open loop: requests sent each second; null in a closed loop and for the replay, whose events have "
            "recorded times",
        ),
    },
    "requests": {
        "run": Column("int", "number of the run"),
        "connection": Column("int", "the broker's number of the connection, not the client's"),
        "sequence": Column("bigint", "position of the request in its connection, from 0, given by the broker"),
        "api": Column("int", "Kafka's API key (0 = Produce)"),
        "version": Column("int", "version of the request"),
        "correlation_id": Column("int", "as sent by the client"),
        "queue": Column("int", "the request queue"),
        "depth": Column("int", "requests of the connection in flight when this one arrived, including it"),
        "request_bytes": Column("bigint", "size without the 4 bytes of the length"),
        "response_bytes": Column("bigint", "size without the 4 bytes of the length"),
        "acks": Column("int", "acks of a Produce request: 0, 1 or -1 (all)"),
        "commit": Column("bigint", "the commit of its records; null if nothing was written"),
        "outcome": Column("string", "`send`, `noop` (acks=0), `close`, `dropped` (the connection ended first)"),
        "received_ns": Column("bigint", "the whole frame was read"),
        "enqueued_ns": Column("bigint", "put on a request queue"),
        "dequeued_ns": Column("bigint", "taken by a handler"),
        "handled_ns": Column("bigint", "the handler returned; a write or further steps may be pending"),
        "decided_ns": Column(
            "bigint",
            "`handled_ns` plus the time of its callbacks and later steps, as if no other request had run between them",
        ),
        "submitted_ns": Column("bigint", "the committer received its entries; null without entries"),
        "durable_ns": Column("bigint", "its commit is durable; null without entries"),
        "completed_ns": Column("bigint", "its result is known"),
        "released_ns": Column("bigint", "all earlier responses of the connection are released"),
        "send_started_ns": Column("bigint", "the transport received its bytes"),
        "sent_ns": Column("bigint", "the socket took its last byte"),
    },
    "appends": {
        "run": Column("int", "number of the run"),
        "connection": Column("int", "as in requests"),
        "sequence": Column("bigint", "as in requests"),
        "commit": Column("bigint", "as in requests"),
        "topic": Column("string", "name of the topic"),
        "partition": Column("int", "number of the partition"),
        "base_offset": Column("bigint", "offset of the first record"),
        "last_offset": Column("bigint", "offset of the last record"),
    },
    "commits": {
        "run": Column("int", "number of the run"),
        "commit": Column("bigint", "number of the commit, in the order of the journal"),
        "entries": Column("int", "number of record batches"),
        "bytes": Column("bigint", "size of the record batches"),
        "started_ns": Column("bigint", "the commit began"),
        "written_ns": Column("bigint", "it was written"),
        "durable_ns": Column("bigint", "it was durable, after an injected delay if any"),
        "completed_ns": Column("bigint", "its requests were completed"),
        "is_on_loop": Column("boolean", "whether the commit ran on the event loop; null in traces before version 0.3"),
    },
    "mutes": {
        "run": Column("int", "number of the run"),
        "connection": Column("int", "as in requests"),
        "reason": Column("string", "the reason, such as `in_flight`"),
        "began_ns": Column("bigint", "reading stopped"),
        "ended_ns": Column("bigint", "reading resumed"),
    },
    "queues": {
        "run": Column("int", "number of the run"),
        "queue": Column("int", "number of the queue"),
        "at_ns": Column("bigint", "time of the sample"),
        "depth": Column("int", "waiting requests"),
    },
    "store": {
        "run": Column("int", "number of the run"),
        "operation": Column(
            "string",
            "`create` (an object of the journal or of the archive's log), `replace` (lease, boundary), `upload` "
            "(contents of the archive), `read`, `read_end`, `list`, `delete`",
        ),
        "outcome": Column(
            "string",
            "`done`, `exists`, `changed`, `missing`: the answers; `unavailable` (not done), `unsure` (unknown "
            "if done), `failed` (other errors)",
        ),
        "requests": Column("int", "the number that a bill counts: 1; for an upload in n parts n + 2"),
        "sent_bytes": Column("bigint", "size of the contents sent"),
        "received_bytes": Column("bigint", "size of the contents received"),
        "began_ns": Column("bigint", "the request began"),
        "ended_ns": Column("bigint", "it ended"),
    },
    "client": {
        "run": Column("int", "number of the run"),
        "connection": Column("int", "the client's number of the connection; confluent-kafka: of the producer"),
        "sequence": Column("bigint", "number of the answer on the connection, from 0; confluent-kafka: of the message"),
        "correlation_id": Column(
            "int",
            "0, 1, 2, ... in the order of sending; null for confluent-kafka, which hides it",
        ),
        "intended_ns": Column("bigint", "open loop: the scheduled time of the request; null in a closed loop"),
        "sent_ns": Column("bigint", "the request was written to the socket; confluent-kafka: `produce()` was called"),
        "answered_ns": Column(
            "bigint",
            "the answer was read; confluent-kafka: the delivery report arrived; null without an answer",
        ),
        "error": Column("int", "Kafka's error code, 0 = none"),
        "measured": Column("boolean", "false in the warm-up"),
    },
}
"""The columns of each table with their meanings, which docs/reference/trace-format.md shows."""
TABLES: Final[dict[str, Columns]] = {
    table: {name: column.kind for name, column in columns.items()} for table, columns in COLUMNS.items()
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
