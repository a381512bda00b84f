"""The recorded flight departures of 2013 (`data/departures-2013.csv.gz`), to be replayed as records."""

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
    """A scheduled departure.

    Attributes:
        time_s: scheduled time, Unix time in UTC.
        tail_number: registration of the aircraft; empty if unknown.
        delay_minutes: negative for an early departure; None for a cancelled flight.
    """

    time_s: int
    carrier: str
    flight: str
    tail_number: str
    origin: str
    destination: str
    delay_minutes: int | None

    def record(self) -> NewRecord:
        value = {
            "flight": self.carrier + self.flight,
            "from": self.origin,
            "to": self.destination,
            "delay_minutes": self.delay_minutes,
        }
        key = self.tail_number.encode() or None
        return NewRecord(json.dumps(value, separators=(",", ":")).encode(), key, self.time_s * 1000)

    def partition(self, partitions: int) -> int:
        """Return the partition that Kafka's default partitioner chooses for the tail number.

        A flight without a tail number is placed by its flight number.
        """
        return partition_of((self.tail_number or self.carrier + self.flight).encode(), partitions)


def read_departures(path: Path, *, busiest_week_only: bool = False) -> list[Departure]:
    """Read the departures of a compressed CSV file, sorted by time.

    Args:
        busiest_week_only: return only the departures of the `busiest_week`.

    Raises:
        ClientError: the file cannot be read, has other columns, no rows, or is not sorted.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            rows = csv.reader(file)
            header = tuple(next(rows, ()))
            if header != COLUMNS:
                raise ClientError(f"{path} has a wrong header. Begin the file with {','.join(COLUMNS)}")
            found = list(rows)
        times = [int(row[0]) for row in found]
        if not times:
            raise ClientError(f"{path} has no departures. Choose a file with at least one row")
        if any(after < before for before, after in pairwise(times)):
            raise ClientError(f"{path} is not sorted by time. Sort the rows by their first column")
        # Only departures that are replayed become objects: creating those of a year takes a second.
        return [_departure(row) for row in (found[busiest_week(times)] if busiest_week_only else found)]
    except (OSError, EOFError, ValueError, TypeError, IndexError) as error:
        raise ClientError(f"{path}: {error}") from None


def _departure(row: list[str]) -> Departure:
    time_s, carrier, flight, tail_number, origin, destination, delay = row
    return Departure(int(time_s), carrier, flight, tail_number, origin, destination, int(delay) if delay else None)


def busiest_week(times_s: Sequence[int]) -> slice:
    """Return the slice of sorted times with the most of them in seven days that begin at midnight UTC.

    Of equally busy weeks it is the first.
    """
    days = Counter(time_s // DAY_S for time_s in times_s)
    start = max(sorted(days), key=lambda day: sum(days[day + offset] for offset in range(7))) * DAY_S
    return slice(bisect_left(times_s, start), bisect_left(times_s, start + WEEK_S))


def intended_offsets_ns(departures: Sequence[Departure], week_s: float) -> list[int]:
    """Return the intended times of departures, in ns after the first one, if a week is replayed in `week_s` seconds."""
    first = departures[0].time_s
    return [round((departure.time_s - first) / WEEK_S * week_s * 1e9) for departure in departures]
