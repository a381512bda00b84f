"""The last ten minutes of a broker, kept even without viewers.

The request path has a row per second; lags and topics have one every SLOW_SECONDS. The rows come from counters that the
broker keeps anyway, so requests cost nothing extra. They take at most about 400 kB: 40 kB for the request path, 200 kB
for lags and 150 kB for topics.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

from pipeline_broker.telemetry.server_shapes import ServerStatistics

__all__ = [
    "GROUPS_KEPT_MAX",
    "KEPT_SECONDS",
    "PATH_COLUMNS",
    "SLOW_SECONDS",
    "TOPICS_KEPT_MAX",
    "Counted",
    "History",
    "Rates",
    "Rows",
    "Totals",
    "counted",
]

KEPT_SECONDS = 600
SLOW_SECONDS = 5
GROUPS_KEPT_MAX = 200
"""The number of groups with a history of lag, the first by name."""
TOPICS_KEPT_MAX = 1000
"""The number of topics with rates, the first by name."""
ALL_GROUPS = None
AGE_DIGITS = 1
VALUE_DIGITS = 2


class Counted(NamedTuple):
    requests: int
    bytes_in: int
    bytes_out: int
    commits: int
    batches: int
    commit_ns: int


class Totals(NamedTuple):
    records: int
    size_bytes: int


class Rates(NamedTuple):
    records_per_s: float
    bytes_per_s: float


def counted(found: ServerStatistics) -> Counted:
    counters = [processor.counters for processor in found.processors]
    committer = found.committer
    return Counted(
        requests=sum(each.responses_out for each in counters),
        bytes_in=sum(each.bytes_in for each in counters),
        bytes_out=sum(each.bytes_out for each in counters),
        commits=committer.commits,
        batches=committer.entries,
        commit_ns=committer.duration_ns,
    )


class Rows:
    """A ring buffer of rows with named columns and a time each.

    Args:
        kept: the number of rows.
    """

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._next = 0
        self._times = self._column()
        self._columns: dict[Hashable, array[float]] = {}

    def _column(self) -> array[float]:
        return array("d", [math.nan]) * self._kept

    def add(self, at: float, values: Mapping[Any, float | None]) -> None:
        """Add a row. Columns that it lacks are dropped, and new columns start without earlier values."""
        self._times[self._next] = at
        self._columns = {name: self._columns.get(name) or self._column() for name in values}
        for name, value in values.items():
            self._columns[name][self._next] = math.nan if value is None else value
        self._next = (self._next + 1) % self._kept

    def shown(self, now: float, *names: Hashable) -> tuple[list[float], list[list[float | None]]]:
        """Return the ages of the rows in seconds, oldest first, and the named columns.

        Both are empty if a column is unknown.
        """
        columns = [self._columns[name] for name in names if name in self._columns]
        if len(columns) < len(names):
            return [], [[] for _ in names]
        order = [*range(self._next, self._kept), *range(self._next)]
        rows = [place for place in order if not math.isnan(self._times[place])]
        ages = [round(now - self._times[place], AGE_DIGITS) for place in rows]
        return ages, [[_known(column[place]) for place in rows] for column in columns]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, VALUE_DIGITS)


PATH_COLUMNS = ("requests_per_s", "in_per_s", "out_per_s", "batches_per_commit", "commit_us")


class History:
    """The request path, group lags and topic rates of the last KEPT_SECONDS.

    Times are seconds of a monotonic clock.

    Attributes:
        latest: the newest row of the request path.
    """

    def __init__(self) -> None:
        self._path = Rows(KEPT_SECONDS)
        self._lags = Rows(KEPT_SECONDS // SLOW_SECONDS)
        self._counted: tuple[float, Counted] | None = None
        self._totals: tuple[float, Mapping[Hashable, Totals]] | None = None
        self._rates: Mapping[Hashable, Rates] = {}
        self.latest: Mapping[str, float | None] = dict.fromkeys(PATH_COLUMNS)

    def add_counted(self, at: float, now: Counted) -> None:
        if self._counted is not None:
            before_at, before = self._counted
            seconds = max(at - before_at, 1e-3)
            since = Counted(*(new - old for new, old in zip(now, before, strict=True)))
            self.latest = {
                "requests_per_s": since.requests / seconds,
                "in_per_s": since.bytes_in / seconds,
                "out_per_s": since.bytes_out / seconds,
                "batches_per_commit": since.batches / since.commits if since.commits else None,
                "commit_us": since.commit_ns / since.commits / 1000 if since.commits else None,
            }
            self._path.add(at, self.latest)
        self._counted = at, now

    def add_lags(self, at: float, lags: Mapping[str, int | None]) -> None:
        known = [lag for lag in lags.values() if lag is not None]
        self._lags.add(at, {**lags, ALL_GROUPS: sum(known) if known else None})

    def add_totals(self, at: float, totals: Mapping[Hashable, Totals]) -> None:
        if self._totals is not None:
            before_at, before = self._totals
            seconds = max(at - before_at, 1e-3)
            self._rates = {
                topic: Rates(
                    max(0.0, (now.records - before[topic].records) / seconds),
                    max(0.0, (now.size_bytes - before[topic].size_bytes) / seconds),
                )
                for topic, now in totals.items()
                if topic in before
            }
        self._totals = at, totals

    def path(self, now: float) -> dict[str, Any]:
        ages, columns = self._path.shown(now, *PATH_COLUMNS)
        return {"ages": ages, **dict(zip(PATH_COLUMNS, columns, strict=True))}

    def lags(self, now: float, group: str | None = ALL_GROUPS) -> dict[str, Any]:
        """Return the lag of a group, or with None of all groups together, and the age of each row in seconds."""
        ages, (lag,) = self._lags.shown(now, group)
        return {"ages": ages, "lag": lag}

    def rates(self, topic: Hashable) -> Rates | None:
        """Return the rates of a topic; None if they are not known yet, or for an unknown topic."""
        return self._rates.get(topic)
