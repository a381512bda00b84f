"""Writes raw runs with known answers, in the format of docs/reference/trace-format.md, independently of the broker."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

MAGIC = b"PBTRACE1"
FORMATS = {"i1": "b", "i2": "h", "i4": "i", "i8": "q", "f8": "d", "string": "i"}
NULLS = {"i1": -(1 << 7), "i2": -(1 << 15), "i4": -(1 << 31), "i8": -(1 << 63), "f8": float("nan"), "string": -1}
OUTCOMES = {"0": "send", "1": "none", "2": "close"}
REASONS = {"0": "in-flight", "1": "throttle"}
STAMPS = (
    "received_ns",
    "enqueued_ns",
    "dequeued_ns",
    "handled_ns",
    "decided_ns",
    "submitted_ns",
    "durable_ns",
    "completed_ns",
    "released_ns",
    "send_started_ns",
    "sent_ns",
)
COLUMNS: dict[str, list[tuple[str, str]]] = {
    "requests": [
        ("connection", "i4"),
        ("sequence", "i8"),
        ("api", "i2"),
        ("version", "i2"),
        ("correlation_id", "i4"),
        ("queue", "i2"),
        ("depth", "i4"),
        ("request_bytes", "i4"),
        ("response_bytes", "i4"),
        ("acks", "i2"),
        ("commit", "i8"),
        ("outcome", "i1"),
        *((name, "i8") for name in STAMPS),
    ],
    "appends": [
        ("connection", "i4"),
        ("sequence", "i8"),
        ("commit", "i8"),
        ("topic", "string"),
        ("partition", "i4"),
        ("base_offset", "i8"),
        ("last_offset", "i8"),
    ],
    "commits": [
        ("commit", "i8"),
        ("entries", "i4"),
        ("bytes", "i8"),
        *((name, "i8") for name in ("started_ns", "written_ns", "durable_ns", "completed_ns")),
        ("is_on_loop", "i1"),
    ],
    "mutes": [("connection", "i4"), ("reason", "i1"), ("began_ns", "i8"), ("ended_ns", "i8")],
    "queues": [("queue", "i2"), ("at_ns", "i8"), ("depth", "i4")],
    "store": [
        ("operation", "string"),
        ("outcome", "string"),
        ("requests", "i4"),
        ("sent_bytes", "i8"),
        ("received_bytes", "i8"),
        ("began_ns", "i8"),
        ("ended_ns", "i8"),
    ],
    "client": [
        ("connection", "i4"),
        ("sequence", "i8"),
        ("correlation_id", "i4"),
        ("intended_ns", "i8"),
        ("sent_ns", "i8"),
        ("answered_ns", "i8"),
        ("error", "i2"),
        ("measured", "i1"),
    ],
}
ENUMS = {"requests": {"outcome": OUTCOMES}, "mutes": {"reason": REASONS}}
MACHINE = {"others_share": 0.01, "steal_share": 0.0}
MACHINE |= {"cpu": "synthetic", "cores": 2, "memory_bytes": 8 << 30, "kernel": "6.1", "python": "3.11"}
START_NS = 1_000_000_000_000


def header(table: str, /, **changes: Any) -> bytes:
    declared = {"table": table, "schema": 2, "columns": COLUMNS[table], "enums": ENUMS.get(table, {}), **changes}
    text = json.dumps(declared).encode()
    return MAGIC + struct.pack("<I", len(text)) + text


class RawRun:
    """A run folder; rows are added as dictionaries and written by `write`."""

    def __init__(self, raw: Path, number: int, **columns: Any) -> None:
        self.folder = raw / f"run-{number:05}"
        self.columns: dict[str, Any] = {
            "run": number,
            "round": 0,
            "traced": False,
            "mode": "classic",
            "side": 0,
            "client": "raw",
            "in_flight": 1,
            "connections": 1,
            "commit_delay_ms": 0,
            "flush": "always",
            "settings": {},
            "machine": MACHINE,
            "client_cpu_share": 0.4,
            "lost_rows": 0,
            "started_ns": START_NS,
            "ended_ns": START_NS + 400_000_000,
            "experiment": "grid",
            **columns,
        }
        self.rows: dict[str, list[dict[str, Any]]] = {"client": []}
        if self.columns["traced"]:
            self.rows |= {table: [] for table in COLUMNS}
        self.strings: list[str] = []
        self.lost: dict[str, int] = {}

    def string(self, text: str | None) -> int | None:
        if text is None:
            return None
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def add(self, table: str, **row: Any) -> None:
        self.rows[table].append(row)

    def answer(self, sent_ns: int, answered_ns: int, sequence: int, **row: Any) -> None:
        self.add(
            "client",
            **{
                "connection": 0,
                "sequence": sequence,
                "correlation_id": sequence,
                "intended_ns": None,
                "sent_ns": sent_ns,
                "answered_ns": answered_ns,
                "error": 0,
                "measured": True,
                **row,
            },
        )

    def write(self) -> Path:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "run.json").write_text(json.dumps(self.columns))
        for table, rows in self.rows.items():
            packed = struct.Struct("<" + "".join(FORMATS[kind] for _, kind in COLUMNS[table]))
            body = b"".join(
                packed.pack(*(self._value(row, name, kind) for name, kind in COLUMNS[table])) for row in rows
            )
            (self.folder / f"{table}.ring").write_bytes(header(table) + body)
        (self.folder / "strings.jsonl").write_text(
            "".join(json.dumps(text, ensure_ascii=False) + "\n" for text in self.strings)
        )
        if self.columns["traced"]:
            (self.folder / "lost.json").write_text(json.dumps(self.lost))
        return self.folder

    def _value(self, row: dict[str, Any], name: str, kind: str) -> Any:
        value = row[name]
        if kind == "string":
            value = self.string(value)
        return NULLS[kind] if value is None else value


def steady(run: RawRun, latencies_us: list[int], *, gap_us: int, connection: int = 0) -> None:
    """Add requests sent `gap_us` apart, answered in order after the given latencies."""
    for sequence, latency in enumerate(latencies_us):
        sent = START_NS + sequence * gap_us * 1000
        run.answer(sent, sent + latency * 1000 + 500, sequence, connection=connection)


def traced_request(
    run: RawRun, connection: int, sequence: int, at_ns: int, stages_us: dict[str, int], **row: Any
) -> None:
    """Add a Produce request with exactly these stage durations; LaterSteps only if given."""
    received = at_ns
    dequeued = received + stages_us["RequestQueue"] * 1000
    decided = dequeued + stages_us["Local"] * 1000
    submitted = decided + 1000
    durable = submitted + stages_us["CommitWait"] * 1000
    completed = decided + stages_us["Remote"] * 1000
    released = completed + stages_us["ResponseOrderWait"] * 1000
    send_started = completed + stages_us["ResponseQueue"] * 1000
    stamps = {
        "received_ns": received,
        "enqueued_ns": min(received + 100, dequeued),
        "dequeued_ns": dequeued,
        "handled_ns": decided - stages_us.get("LaterSteps", 0) * 1000,
        "decided_ns": decided,
        "submitted_ns": submitted,
        "durable_ns": durable,
        "completed_ns": completed,
        "released_ns": released,
        "send_started_ns": send_started,
        "sent_ns": send_started + stages_us["ResponseSend"] * 1000,
    }
    run.add(
        "requests",
        **{
            "connection": connection,
            "sequence": sequence,
            "api": 0,
            "version": 9,
            "correlation_id": sequence,
            "queue": 0,
            "depth": 1,
            "request_bytes": 200,
            "response_bytes": 60,
            "acks": -1,
            "commit": sequence,
            "outcome": 0,
            **stamps,
            **row,
        },
    )


def append(run: RawRun, connection: int, sequence: int, base_offset: int, **row: Any) -> None:
    run.add(
        "appends",
        **{
            "connection": connection,
            "sequence": sequence,
            "commit": sequence,
            "topic": "events",
            "partition": 0,
            "base_offset": base_offset,
            "last_offset": base_offset,
            **row,
        },
    )


TRACED_ROUNDS = 2
"""Few, because each traced run has the files of seven tables."""
TRACED = ((64, 1, 0), (64, 16, 0), (64, 1, 2))
"""The loads with traced rounds, as in the profile `quick`."""


def experiment(directory: Path, *, requests: int = 200, seed: int = 1, rounds: int = 3) -> None:
    """Write a whole small experiment with every part of a real one, and with realistic rates and latencies."""
    drawn = random.Random(seed)
    raw = directory / "raw"
    grid = [(depth, wide, 0) for depth in (1, 5, 64) for wide in (1, 16)] + [(64, 1, 2), (64, 1, 10)]
    plan: list[dict[str, Any]] = []
    for depth, wide, delay in grid:
        load = {"in_flight": depth, "connections": wide, "commit_delay_ms": delay}
        for number in range(rounds):
            plan += [{**load, "round": number, "side": side, "mode": mode} for side, mode in SIDES]
        traced_rounds = TRACED_ROUNDS if (depth, wide, delay) in TRACED else 0
        for number in range(rounds, rounds + traced_rounds):
            plan += [{**load, "round": number, "side": side, "mode": mode, "traced": True} for side, mode in SIDES]
    for linger in (0, 5):
        for producers in (1, 16):
            load = {"in_flight": 5, "connections": producers, "client": f"confluent-kafka linger={linger}"}
            for number in range(3):
                plan += [
                    {**load, "round": number, "side": side, "mode": mode, "experiment": "clients"}
                    for side, mode in SIDES
                ]
    for number in range(3):
        load = {"in_flight": 64, "connections": 1, "round": number, "experiment": "ablation"}
        plan += [{**load, "side": 0, "mode": "classic"}]
        plan += [{**load, "side": 1, "mode": mode} for mode in ("mute-off", "group-commit", "both")]
        plan += [{"in_flight": 64, "connections": 1, "round": number, "side": side, "mode": "pipelined",
                  "experiment": "self", "variant": "self"} for side in (0, 1)]  # fmt: skip
        load = {"in_flight": 64, "connections": 4, "client": "replay", "experiment": "replay", "round": number}
        plan += [{**load, "side": side, "mode": mode} for side, mode in SIDES]
        for of, share in LADDER:
            load = {"in_flight": 64, "connections": 1, "round": number, "experiment": "ladder"}
            load |= {"offered_of": of, "offered_share": share, "offered_per_s": share * CAPACITIES_PER_S[of]}
            load |= {"variant": f"rate={share:.0%}-of-{of}"}
            plan += [{**load, "side": side, "mode": mode} for side, mode in SIDES]
    for number, columns in enumerate(plan, start=1):
        run = RawRun(raw, number, **columns, settings={"seed": seed})
        if columns.get("client") == "replay":
            _replayed(run, requests, drawn)
        elif columns.get("experiment") == "ladder":
            _offered(run, requests * 10, drawn)
        else:
            _driven(run, requests, drawn)
        run.write()


SIDES = ((0, "classic"), (1, "pipelined"))
CAPACITIES_PER_S = {"classic": 2500.0, "pipelined": 40_000.0}
LADDER = (("classic", 0.2), ("classic", 0.5), ("classic", 0.8), ("classic", 0.95), ("pipelined", 0.8))


def _commit_us(run: RawRun) -> float:
    return 300 + 1000 * run.columns["commit_delay_ms"]


def _driven(run: RawRun, requests: int, drawn: random.Random) -> None:
    """Add a closed loop: the rate follows from the number of requests that share a commit."""
    mode, depth, wide = (run.columns[name] for name in ("mode", "in_flight", "connections"))
    shared = {"classic": min(8, wide), "mute-off": 2, "group-commit": 1.3}.get(mode, max(1.0, depth * wide * 0.6))
    commit_us = _commit_us(run) * drawn.lognormvariate(0, 0.04)
    gap_us = max(14.0, commit_us / shared)
    for connection in range(wide):
        answered_before = 0
        for sequence in range(requests):
            sent = START_NS + int((sequence * wide + connection) * gap_us * 1000)
            latency = commit_us * max(1, depth * wide / shared) * drawn.lognormvariate(0, 0.25)
            answered_before = max(answered_before, sent + int(latency * 1000))
            identifier = None if "confluent" in run.columns["client"] else sequence
            run.answer(
                sent,
                answered_before,
                sequence,
                connection=connection,
                correlation_id=identifier,
                measured=sequence >= requests // 5,
            )
            if run.columns["traced"]:
                _trace(run, connection, sequence, sent, int(shared), commit_us, drawn)
    for commit in range(int(requests * wide / max(1, shared))) if run.columns["traced"] else ():
        began = START_NS + int(commit * commit_us * 1000)
        entries = max(1, int(shared * drawn.uniform(0.5, 1.5)))
        durable = began + int(commit_us * 1000)
        run.add(
            "commits",
            commit=commit,
            entries=entries,
            bytes=entries * 190,
            started_ns=began,
            written_ns=began + 40_000,
            durable_ns=durable,
            completed_ns=durable + 30_000,
            is_on_loop=0,
        )


def _trace(
    run: RawRun, connection: int, sequence: int, at_ns: int, shared: int, commit_us: float, drawn: random.Random
) -> None:
    wait = int(commit_us * drawn.uniform(0.9, 1.6))
    stages = {
        "RequestQueue": int(drawn.expovariate(1 / 25)),
        "Local": int(drawn.uniform(8, 20)),
        "CommitWait": wait,
        "Remote": wait + 30,
        "ResponseOrderWait": int(drawn.expovariate(1 / 8)),
        "ResponseQueue": int(drawn.expovariate(1 / 8)) + 60,
        "ResponseSend": 12,
    }
    arrived = at_ns + sequence  # a strictly rising base, so that releases can be put in order
    traced_request(run, connection, sequence, arrived, stages, commit=sequence // max(1, shared))
    row = run.rows["requests"][-1]
    before = [other["released_ns"] for other in run.rows["requests"][-2:-1] if other["connection"] == connection]
    row["released_ns"] = max(row["released_ns"], *before, 0)
    row["send_started_ns"] = max(row["send_started_ns"], row["released_ns"])
    row["sent_ns"] = row["send_started_ns"] + 12_000
    append(run, connection, sequence, sequence * run.columns["connections"] + connection)
    if run.columns["mode"] == "classic":
        run.add("mutes", connection=connection, reason=0, began_ns=arrived, ended_ns=row["sent_ns"])
    run.add("queues", queue=0, at_ns=arrived, depth=sequence % 7)


def _offered(run: RawRun, requests: int, drawn: random.Random) -> None:
    """Add an open loop: a queue with one server, which in classic needs 1 / capacity for each request."""
    gap_us = 1e6 / run.columns["offered_per_s"]
    service_us = 1e6 / CAPACITIES_PER_S[run.columns["mode"]]
    free = 0
    for sequence in range(requests):
        due = START_NS + int(sequence * gap_us * 1000)
        free = max(free, due) + int(service_us * drawn.lognormvariate(0, 0.4) * 1000)
        run.answer(due + 30_000, free + 250_000, sequence, intended_ns=due)


def _replayed(run: RawRun, requests: int, drawn: random.Random) -> None:
    """Add an open loop at a given pace with one stall, longer in classic."""
    stall_us = 90_000 if run.columns["mode"] == "classic" else 8_000
    for connection in range(4):
        before = 0
        for sequence in range(requests * 4):
            intended = START_NS + int((sequence * 4 + connection) * 5e9 / (requests * 16))
            stalled = stall_us if 0.5 < sequence / (requests * 4) < 0.53 else 0
            before = max(before, intended + int((350 * drawn.lognormvariate(0, 0.3) + stalled) * 1000))
            run.answer(intended + 30_000, before, sequence, connection=connection, intended_ns=intended)
