"""The commits: how large, how long their syncs take.

Rules of this file: on the event loop a commit costs one packed row; histograms are filled in batches, by `drain`. A
full ring drops rows; how many commits there were is the committer's own number, which is exact.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from pipeline_broker.telemetry.exposition import Family, Sample, summary_samples
from pipeline_broker.telemetry.histogram import DecayingHistogram
from pipeline_broker.telemetry.request_metrics import NANOSECONDS_IN_MS, record_spans
from stages.timeline import TraceRing

__all__ = ["CommitMetrics"]

ROWS_MAX = 1024
_ROW = "<iqqq"


class CommitMetrics:
    """See the rules of the file."""

    def __init__(self) -> None:
        self._ring = TraceRing(_ROW, ROWS_MAX)
        self._entries = DecayingHistogram()
        self._bytes = DecayingHistogram()
        self._syncs = DecayingHistogram()

    def commit_ended(self, commit: Any) -> None:
        """See `stages.timeline.Timeline`."""
        self._ring.append(len(commit.entries), commit.size_bytes, commit.written_ns, commit.durable_ns)

    def drain(self, at_ns: int) -> None:
        """Fill the histograms with what the ring holds."""
        rows = list(zip(*struct.iter_unpack(_ROW, self._ring.take()), strict=True))
        if not rows:
            return
        at_seconds = at_ns / 1e9
        entries, sizes, written, durable = rows
        self._entries.add(Counter(entries), sum(entries), at_seconds)
        self._bytes.add(Counter(sizes), sum(sizes), at_seconds)
        record_spans(self._syncs, written, durable, at_seconds)

    def families(self) -> Iterator[Family]:
        """What was drained so far."""
        described: tuple[tuple[str, str, DecayingHistogram, Callable[[DecayingHistogram], list[Sample]]], ...] = (
            (
                "kafka_log_logflushstats_logflushrateandtimems",
                "Time from the end of a commit's write to its being durable (LogFlushRateAndTimeMs).",
                self._syncs,
                lambda histogram: summary_samples(histogram, (), 1 / NANOSECONDS_IN_MS),
            ),
            ("pipeline_broker_commit_entries", "Record batches in one commit.", self._entries, summary_samples),
            ("pipeline_broker_commit_bytes", "Bytes in one commit.", self._bytes, summary_samples),
        )
        for name, explanation, histogram, samples in described:
            yield Family(name, "summary", explanation, samples(histogram))
