"""The recorded events: departures of 2013, with their time, as the repository's data file has them.

Rules of this file: rows are read once, in order, and checked; choosing a week and turning departures into a plan
of requests is arithmetic without I/O.
"""

import csv
import gzip
import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import attrs

from pipeline_broker.load.exchange import LoadError
from pipeline_broker.load.murmur2 import partition_of
from pipeline_broker.records.batch import NewRecord

COLUMNS = ("time", "carrier", "flight", "tail_number", "origin", "destination", "delay_minutes")
WEEK_S = 7 * 24 * 3600
DAY_S = 24 * 3600


@attrs.frozen(slots=True)
class Departure:
    """One scheduled departure; the delay is None for a flight that never left."""

    time_s: int
    carrier: str
    flight: str
    tail_number: str
    origin: str
    destination: str
    delay_minutes: int | None

    def record(self) -> NewRecord:
        """The departure as a record: key = tail number, timestamp = scheduled departure."""
        value = {
            "flight": self.carrier + self.flight,
            "from": self.origin,
            "to": self.destination,
            "delay_minutes": self.delay_minutes,
        }
        key = self.tail_number.encode() or None
        return NewRecord(json.dumps(value, separators=(",", ":")).encode(), key, self.time_s * 1000)

    def partition(self, partitions: int) -> int:
        """Where Kafka's default partitioner puts it; flights without a tail number go by their number."""
        return partition_of((self.tail_number or self.carrier + self.flight).encode(), partitions)


def read_departures(path: Path) -> list[Departure]:
    """All departures of a data file, in the order of their times."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            header = tuple(next(rows, ()))
            if header != COLUMNS:
                raise LoadError(f"{path}: expected the columns {', '.join(COLUMNS)}")
            departures = [_departure(row) for row in rows]
    except (OSError, EOFError, ValueError, TypeError) as error:
        raise LoadError(f"{path}: {error}") from None
    if not departures:
        raise LoadError(f"{path}: no departures")
    if any(after.time_s < before.time_s for before, after in pairwise(departures)):
        raise LoadError(f"{path}: not sorted by time")
    return departures


def _departure(row: list[str]) -> Departure:
    time_s, carrier, flight, tail_number, origin, destination, delay = row
    return Departure(int(time_s), carrier, flight, tail_number, origin, destination, int(delay) if delay else None)


def busiest_week(departures: Sequence[Departure]) -> list[Departure]:
    """The seven days (from midnight UTC) with the most departures; the earliest of equal ones."""
    days = Counter(departure.time_s // DAY_S for departure in departures)
    start = max(sorted(days), key=lambda day: sum(days[day + offset] for offset in range(7))) * DAY_S
    return [departure for departure in departures if start <= departure.time_s < start + WEEK_S]


def intended_offsets_ns(departures: Sequence[Departure], week_s: float) -> list[int]:
    """When each is to be sent, counted from the start: a week of departures takes `week_s` seconds."""
    first = departures[0].time_s
    return [round((departure.time_s - first) / WEEK_S * week_s * 1e9) for departure in departures]
