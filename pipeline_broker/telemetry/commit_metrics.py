"""Histograms of commits: record batches, bytes and sync times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from pipeline_broker.telemetry.exposition import Family, Sample, summary_samples
from pipeline_broker.telemetry.histogram import DecayingHistogram
from pipeline_broker.telemetry.request_metrics import NANOSECONDS_IN_MS, record_spans
from pipeline_broker.telemetry.sampled_rows import SampledRows

__all__ = ["CommitMetrics"]


class CommitMetrics:
    """Histograms of commits, from sampled rows (`sampled_rows`).

    The exact totals of commits are the committer's own.
    """

    def __init__(self) -> None:
        self._commits = SampledRows()
        self._entries = DecayingHistogram()
        self._bytes = DecayingHistogram()
        self._syncs = DecayingHistogram()

    def commit_ended(self, commit: Any) -> None:
        commits = self._commits
        commits.until_row -= 1
        if not commits.until_row:
            commits.add((len(commit.entries), commit.size_bytes, commit.written_ns, commit.durable_ns))

    def drain(self, at_ns: int) -> None:
        rows, stands_for = self._commits.take()
        if not rows:
            return
        at_seconds = at_ns / 1e9
        entries, sizes, written, durable = zip(*rows, strict=True)
        self._entries.add(Counter(entries), sum(entries), at_seconds, stands_for)
        self._bytes.add(Counter(sizes), sum(sizes), at_seconds, stands_for)
        record_spans(self._syncs, written, durable, at_seconds, stands_for)

    def families(self) -> Iterator[Family]:
        described: tuple[tuple[str, str, DecayingHistogram, Callable[[DecayingHistogram], list[Sample]]], ...] = (
            (
                "kafka_log_logflushstats_logflushrateandtimems",
                (
                    "Time from the end of a commit's write until it is durable: the sync, and an injected delay "
                    "(LogFlushRateAndTimeMs)."
                ),
                self._syncs,
                lambda histogram: summary_samples(histogram, (), 1 / NANOSECONDS_IN_MS),
            ),
            ("pipeline_broker_commit_entries", "Record batches in one commit.", self._entries, summary_samples),
            ("pipeline_broker_commit_bytes", "Bytes in one commit.", self._bytes, summary_samples),
        )
        for name, explanation, histogram, samples in described:
            yield Family(name, "summary", explanation, samples(histogram))
