"""The topic that request timelines are published to.

Rules of this file: data only; docs/live.md explains the topic. Its name begins as those of Kafka's internal topics do,
and clients may read it, not write it. They are not told that it is internal: Spark's connector would find no partition
(`ConsumerStrategy.retrieveAllPartitions`).
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["TIMELINES_CONFIGS", "TIMELINES_PARTITIONS", "TIMELINES_TOPIC"]

TIMELINES_TOPIC = "__request_timelines"
TIMELINES_PARTITIONS = 1
"""One publisher writes it, and one partition keeps the order of its records."""
RETENTION_MS = 3_600_000
RETENTION_BYTES = 256 * 1024 * 1024
SEGMENT_BYTES = 16 * 1024 * 1024
TIMELINES_CONFIGS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "retention.ms": str(RETENTION_MS),
    "retention.bytes": str(RETENTION_BYTES),
    "segment.bytes": str(SEGMENT_BYTES),
}
"""Its settings from the beginning; they can be altered as those of any topic."""
