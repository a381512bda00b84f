"""Which settings of topics this broker acts on; the others are kept and shown."""

TOPIC_ACTED_ON = frozenset(
    {
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "cleanup.policy",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "delete.retention.ms",
        "max.compaction.lag.ms",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "file.delete.delay.ms",
        "min.insync.replicas",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.jitter.ms",
        "segment.ms",
    }
)
"""The settings of topics that this broker acts on; one replica is all that it could wait for."""
