"""Records of request timelines in the broker's format, and files of them that Spark reads as a stream."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.telemetry.timeline_records import TimelineBatches
from pipeline_broker.traces.broker_tables import REQUESTS
from stages.timeline import STAMPS

BEGIN_S = 1_700_000_000
OFFSET_NS = 5_000_000_000
LAYOUT = REQUESTS.layout
NULL = -(2**63)
PRODUCE, FETCH = 0, 1


def row(received_s: float, gaps_us: list[int], *, api: int = PRODUCE, sequence: int = 0) -> bytes:
    """Return a request received `received_s` after BEGIN_S, with a stamp after each gap; a Fetch has no commit.

    The handler decides it at once: `decided_ns` is `handled_ns`.
    """
    stamps = [int((BEGIN_S + received_s) * 1e9) - OFFSET_NS]
    for gap_us in gaps_us:
        stamps.append(stamps[-1] + gap_us * 1000)
    stamps.insert(STAMPS.index("decided_ns"), stamps[STAMPS.index("handled_ns")])
    if api == FETCH:
        stamps[STAMPS.index("submitted_ns")] = stamps[STAMPS.index("durable_ns")] = NULL
    return LAYOUT.pack(1, sequence, api, 9, sequence, 0, 1, 100, 50, -1, 7, 0, *stamps)


def random_rows(seed: int, first_s: float, last_s: float, count: int) -> bytes:
    """Return requests spread over a time, most of them Produce."""
    chance = random.Random(seed)
    return b"".join(
        row(
            chance.uniform(first_s, last_s),
            [chance.randrange(2_000) for _ in range(9)],
            api=FETCH if chance.random() < 0.1 else PRODUCE,
            sequence=sequence,
        )
        for sequence in range(count)
    )


class TopicFiles:
    """A folder with a file per publication, which Spark streams in the order of publication."""

    def __init__(self, folder: Path, mode: str = "pipelined") -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.batches = TimelineBatches(f"session-{mode}", mode, OFFSET_NS)
        self.rows = b""

    def publish(self, rows: bytes, lost: int = 0) -> None:
        self.rows += rows
        values = [
            bytes(record.value).decode()
            for batch in self.batches.encode(rows, lost, 1)
            for header, view in iterate_batches(batch)
            for record in iterate_records(view, header)
        ]
        self.write(values)

    def write(self, values: list[str]) -> None:
        number = len(list(self.folder.iterdir()))
        fresh = self.folder / f".{number:04}"
        fresh.write_text("".join(f"{value}\n" for value in values), encoding="utf-8")
        os.utime(fresh, (BEGIN_S + number, BEGIN_S + number))  # Spark reads files by age, and to the millisecond
        fresh.rename(self.folder / f"{number:04}.txt")

    def stream(self, spark):
        """Return a stream with one file per batch."""
        return spark.readStream.schema("value string").option("maxFilesPerTrigger", 1).text(str(self.folder))

    def requests(self) -> int:
        """Return the published Produce requests."""
        return sum(values[2] == PRODUCE for values in LAYOUT.iter_unpack(self.rows))


def broken(**changes) -> str:
    """Return a record with other fields."""
    return json.dumps({"schema": 2, "session": "s", "mode": "pipelined", "rows": 0, **changes})
