"""The topic that request timelines are published to.

Rules of this file: data only; docs/live.md explains the topic. Its name begins as those of Kafka's internal topics do,
and clients may read it, not write it. They are not told that it is internal: Spark's connector would find no partition
(`ConsumerStrategy.retrieveAllPartitions`).
"""

from __future__ import annotations

__all__ = ["TIMELINES_TOPIC", "timelines_configs"]

TIMELINES_TOPIC = "__request_timelines"
RETENTION_MS = 3_600_000
RETENTION_BYTES = 256 * 1024 * 1024
"""Of all partitions together."""
SEGMENT_BYTES = 16 * 1024 * 1024


def timelines_configs(partitions: int) -> dict[str, str]:
    """The topic's settings from the beginning; they can be altered as those of any topic."""
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "retention.ms": str(RETENTION_MS),
        "retention.bytes": str(RETENTION_BYTES // partitions),
        "segment.bytes": str(SEGMENT_BYTES),
    }
