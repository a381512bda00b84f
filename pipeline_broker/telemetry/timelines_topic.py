"""The topic to which request timelines are published (docs/guides/live.md).

Its name begins like Kafka's internal topics. Clients can read it, but not write to it. Responses do not mark it as
internal, because Spark's connector would then find no partitions (`ConsumerStrategy.retrieveAllPartitions`).
"""

from __future__ import annotations

__all__ = ["TIMELINES_TOPIC", "timelines_configs"]

TIMELINES_TOPIC = "__request_timelines"
RETENTION_MS = 3_600_000
RETENTION_BYTES = 256 * 1024 * 1024  # of all partitions together
SEGMENT_BYTES = 16 * 1024 * 1024


def timelines_configs(partitions: int) -> dict[str, str]:
    """Return the initial settings of the topic; clients can alter them like those of any topic."""
    return {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "retention.ms": str(RETENTION_MS),
        "retention.bytes": str(RETENTION_BYTES // partitions),
        "segment.bytes": str(SEGMENT_BYTES),
    }
