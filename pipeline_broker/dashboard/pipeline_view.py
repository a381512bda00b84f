"""The live request path as JSON: stages, lanes, queues and commits of the last seconds.

Times are whole microseconds. Stages are the PARTS of `traces.stage_durations`, which add up to the total of a request.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, repeat
from typing import Any

import attrs

from pipeline_broker.base.steps import Steps, first_few
from pipeline_broker.dashboard.origins import cut, some_of
from pipeline_broker.dashboard.watched_pipeline import OTHER_API, Interval, WatchedRequest
from pipeline_broker.telemetry.answer_errors import error_name
from pipeline_broker.traces.broker_tables import Outcome
from pipeline_broker.traces.stage_durations import PARTS, stage_durations

__all__ = ["PipelineView", "Sample", "lane_events", "part_spans", "request_events", "summary"]

# Stages and commits are summed over this many intervals of one second.
WINDOW_INTERVALS = 10
LANES_SHOWN_MAX = 6
APIS_SHOWN_MAX = 16
QUEUES_SHOWN_MAX = 64
REQUESTS_SHOWN_MAX = 100
ROWS_PER_STEP = 64
MUTES_SHOWN_MAX = 64  # of a lane
P99 = 0.99
# Weights are floats: their rounding errors must not move the percentile to another sample.
ROUNDING = 1e-9
MICROSECOND_NS = 1000

OUTCOMES = {
    Outcome.SEND: "sent",
    Outcome.NOOP: "no response requested",
    Outcome.CLOSE: "connection closed by the broker",
    Outcome.DROPPED: "connection lost",
}

Sample = tuple[int, float]
"""A value and its weight, the number of requests that it represents."""


def part_spans(row: WatchedRequest) -> tuple[int, ...]:
    """Return the nanoseconds that a request spent in each of PARTS; 0 for parts that it did not reach."""
    return stage_durations(row, row.sent_ns).parts


def summary(samples: Iterable[Sample]) -> tuple[int, int]:
    """Return the mean and the 99th percentile of samples in nanoseconds, rounded to microseconds.

    Args:
        samples: at least one.
    """
    ordered = sorted(samples)
    whole = sum([weight for _, weight in ordered])
    mean = sum([weight * value for value, weight in ordered]) / whole
    beyond, found = 0.0, ordered[-1][0]
    for value, weight in reversed(ordered):
        found = value
        beyond += weight
        if beyond > (1 - P99) * whole * (1 + ROUNDING):
            break
    return round(mean / MICROSECOND_NS), round(found / MICROSECOND_NS)


@attrs.frozen
class _ApiSamples:
    """The sampled requests of one API in one interval.

    Attributes:
        weight: the number of requests that a sample represents.
        stages: for each of PARTS, its time in each sample.
        totals: the total time of each sample.
    """

    weight: float
    stages: tuple[tuple[int, ...], ...]
    totals: tuple[int, ...]


class PipelineView:
    """The sums of the request path over a sliding window of intervals.

    Args:
        api_names: by API key.
        mute_reasons: names by number.
    """

    def __init__(self, api_names: Mapping[int, str], mute_reasons: Mapping[int, str]) -> None:
        self._api_names = api_names
        self._mute_reasons = mute_reasons
        self._intervals: deque[Interval] = deque(maxlen=WINDOW_INTERVALS)
        self._samples: deque[dict[int, list[_ApiSamples]]] = deque(maxlen=WINDOW_INTERVALS)

    def add(self, interval: Interval) -> Steps[dict[str, Any]]:
        samples = yield from _samples_of(interval)
        counted = [attrs.evolve(api, rows=()) for api in interval.apis]  # frees the names of requests
        self._intervals.append(attrs.evolve(interval, apis=counted, lanes={}, mutes=()))
        self._samples.append(samples)
        seconds = max(interval.seconds, 1e-9)
        counts: Counter[int] = Counter()
        for api in interval.apis:
            counts[api.api] += api.count
        return {
            "seconds": round(interval.seconds, 3),
            "watched": round(interval.watched, 2),
            "window_seconds": round(sum(each.seconds for each in self._intervals), 1),
            "requests_per_s": round(counts.total() / seconds, 1),
            "apis": (yield from self._apis(counts, seconds)),
            "lanes": lane_events(interval, self._name, self._mute_reasons),
            "mutes": self._mutes(interval, seconds),
            "queues": [
                {"queue": queue, "depth_max": seen.depth_max, "turns": seen.turns}
                for queue, seen in sorted(interval.queues.items())[:QUEUES_SHOWN_MAX]
            ],
            "commits": self._commits(interval, seconds),
        }

    def _name(self, api: int) -> str:
        return "other" if api == OTHER_API else self._api_names.get(api, str(api))

    def _apis(self, counts: Counter[int], seconds: float) -> Steps[list[dict[str, Any]]]:
        merged: dict[int, list[_ApiSamples]] = {}
        for samples in self._samples:
            for api, found in samples.items():
                merged.setdefault(api, []).extend(found)
        totals: Counter[int] = Counter()
        for interval in self._intervals:
            for watched in interval.apis:
                totals[watched.api] += watched.count
        shown = []
        for api, total in totals.most_common(APIS_SHOWN_MAX):
            shown.append(
                {
                    "api": self._name(api),
                    "requests_per_s": round(counts[api] / seconds, 1),
                    "requests": total,
                    **(yield from _stages(merged.get(api, ()))),
                }
            )
        return shown

    def _mutes(self, interval: Interval, seconds: float) -> list[dict[str, Any]]:
        return [
            {
                "reason": self._mute_reasons.get(reason, str(reason)),
                "per_s": round(count / seconds, 1),
                "mean_us": round(interval.mute_ns[reason] / count / MICROSECOND_NS),
            }
            for reason, count in sorted(interval.mute_counts.items())
        ]

    def _commits(self, interval: Interval, seconds: float) -> dict[str, Any]:
        rows = [row for each in self._intervals for row in each.commits]
        if not rows:
            return {"per_s": 0.0, "entries_mean": 0.0, "entries_max": 0, "bytes_mean": 0}
        write = summary([(max(0, row.written_ns - row.started_ns), 1.0) for row in rows])
        sync = summary([(max(0, row.durable_ns - row.written_ns), 1.0) for row in rows])
        return {
            "per_s": round(interval.commit_count / seconds, 1),
            "entries_mean": round(sum(row.entries for row in rows) / len(rows), 1),
            "entries_max": max(row.entries for row in rows),
            "bytes_mean": round(sum(row.size_bytes for row in rows) / len(rows)),
            "write_mean_us": write[0],
            "write_p99_us": write[1],
            "sync_mean_us": sync[0],
            "sync_p99_us": sync[1],
        }


def _samples_of(interval: Interval) -> Steps[dict[int, list[_ApiSamples]]]:
    samples: dict[int, list[_ApiSamples]] = {}
    for api in interval.apis:
        if api.rows:
            spans: list[tuple[int, ...]] = []
            for begin in range(0, len(api.rows), ROWS_PER_STEP):
                spans += map(part_spans, api.rows[begin : begin + ROWS_PER_STEP])
                yield
            found = _ApiSamples(api.count / len(spans), tuple(zip(*spans, strict=True)), tuple(map(sum, spans)))
            samples.setdefault(api.api, []).append(found)
    return samples


def _stages(found: Sequence[_ApiSamples]) -> Steps[dict[str, Any]]:
    if not found:
        return {"sampled": 0, "stages": [], "total_mean_us": 0, "total_p99_us": 0}
    stages = []
    for place in range(len(PARTS)):
        mean_us, p99_us = summary(_weighted((samples.stages[place], samples.weight) for samples in found))
        stages.append({"mean_us": mean_us, "p99_us": p99_us})
        yield
    mean_us, p99_us = summary(_weighted((samples.totals, samples.weight) for samples in found))
    sampled = sum(len(samples.totals) for samples in found)
    return {"sampled": sampled, "stages": stages, "total_mean_us": mean_us, "total_p99_us": p99_us}


def _weighted(columns: Iterable[tuple[Sequence[int], float]]) -> Iterator[Sample]:
    return chain.from_iterable(zip(values, repeat(weight), strict=False) for values, weight in columns)


def lane_events(interval: Interval, name: Any, mute_reasons: Mapping[int, str]) -> list[dict[str, Any]]:
    """Return the busiest lanes of an interval: connections with their requests and mutes.

    Requests are in the order of arrival; `out` is the position in the order of responses. Times count from the arrival
    of the lane's first request.
    """
    lanes = []
    busiest = sorted(interval.lanes.items(), key=lambda lane: (-len(lane[1]), lane[0]))[:LANES_SHOWN_MAX]
    for index, rows in sorted(busiest):
        start_ns = min(row.received_ns for row in rows)
        end_ns = max(row.sent_ns for row in rows)
        by_arrival = sorted(enumerate(rows), key=lambda place: place[1].sequence)
        mutes = [
            mute
            for mute in interval.mutes
            if mute.connection == index and mute.ended_ns > start_ns and mute.began_ns < end_ns
        ]
        lanes.append(
            {
                "connection": index,
                "span_us": (end_ns - start_ns) // MICROSECOND_NS,
                "requests": [
                    {
                        "sequence": row.sequence,
                        "out": place,
                        "api": name(row.api),
                        "depth": row.depth,
                        "received_us": (row.received_ns - start_ns) // MICROSECOND_NS,
                        "stages_us": [span // MICROSECOND_NS for span in part_spans(row)],
                    }
                    for place, row in by_arrival
                ],
                "mutes": [
                    {
                        "reason": mute_reasons.get(mute.reason, str(mute.reason)),
                        "began_us": (max(mute.began_ns, start_ns) - start_ns) // MICROSECOND_NS,
                        "ended_us": (min(mute.ended_ns, end_ns) - start_ns) // MICROSECOND_NS,
                    }
                    for mute in mutes[:MUTES_SHOWN_MAX]
                ],
            }
        )
    return lanes


def request_events(interval: Interval, api_names: Mapping[int, str]) -> Steps[list[dict[str, Any]]]:
    """Return the latest sampled requests of an interval, oldest first, in steps."""
    rows = [row for api in interval.apis for row in api.rows]
    latest = yield from first_few(reversed(rows), REQUESTS_SHOWN_MAX, lambda row: -row.sent_ns)
    shown = []
    for row in reversed(latest):
        shown.append(_request(row, interval.ended_ns, api_names))
        yield
    return shown


def _request(row: WatchedRequest, now_ns: int, api_names: Mapping[int, str]) -> dict[str, Any]:
    origin = row.origin
    names = None if origin is None else origin.names()
    return {
        "client": "" if origin is None else cut(origin.client_id),
        "from": "" if origin is None else origin.address,
        "topics": [] if names is None else some_of(topic for topic, _ in names.partitions),
        "groups": [] if names is None else some_of(names.groups),
        "connection": row.connection,
        "sequence": row.sequence,
        "api": api_names.get(row.api, "other"),
        "version": row.version,
        "correlation_id": row.correlation_id,
        "ago_us": max(0, now_ns - row.sent_ns) // MICROSECOND_NS,
        "depth": row.depth,
        "request_bytes": row.request_bytes,
        "response_bytes": row.response_bytes,
        "outcome": OUTCOMES[Outcome(row.outcome)],
        "error": error_name(row.error),
        "total_us": max(0, row.sent_ns - row.received_ns) // MICROSECOND_NS,
        "stages_us": [span // MICROSECOND_NS for span in part_spans(row)],
    }
