"""The recorded events: departures of 2013, with their time, as the repository's data file has them.

Rules of this file: rows are read once, in order, and checked; choosing a week and turning departures into a plan
of requests is arithmetic without I/O.
"""

import csv
import gzip
import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import attrs

from pipeline_broker.client.errors import ClientError
from pipeline_broker.records.batch import NewRecord
from pipeline_broker.records.murmur2 import partition_of

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


def read_departures(path: Path, *, busiest_week_only: bool = False) -> list[Departure]:
    """The departures of a data file, in the order of their times."""
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            header = tuple(next(rows, ()))
            if header != COLUMNS:
                raise ClientError(f"{path}: expected the columns {', '.join(COLUMNS)}")
            found = list(rows)
        times = [int(row[0]) for row in found]
        if not times:
            raise ClientError(f"{path}: no departures")
        if any(after < before for before, after in pairwise(times)):
            raise ClientError(f"{path}: not sorted by time")
        # Only what is replayed becomes objects: a year of them would take a second.
        return [_departure(row) for row in (found[busiest_week(times)] if busiest_week_only else found)]
    except (OSError, EOFError, ValueError, TypeError, IndexError) as error:
        raise ClientError(f"{path}: {error}") from None


def _departure(row: list[str]) -> Departure:
    time_s, carrier, flight, tail_number, origin, destination, delay = row
    return Departure(int(time_s), carrier, flight, tail_number, origin, destination, int(delay) if delay else None)


def busiest_week(times_s: Sequence[int]) -> slice:
    """Where, among sorted times, the seven days (from midnight UTC) with the most of them lie; the earliest such."""
    days = Counter(time_s // DAY_S for time_s in times_s)
    start = max(sorted(days), key=lambda day: sum(days[day + offset] for offset in range(7))) * DAY_S
    return slice(bisect_left(times_s, start), bisect_left(times_s, start + WEEK_S))


def intended_offsets_ns(departures: Sequence[Departure], week_s: float) -> list[int]:
    """When each is to be sent, counted from the start: a week of departures takes `week_s` seconds."""
    first = departures[0].time_s
    return [round((departure.time_s - first) / WEEK_S * week_s * 1e9) for departure in departures]
