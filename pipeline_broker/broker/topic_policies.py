"""Rules for the batches and files of a topic, computed from its settings and those it inherits from the broker."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.config.properties import Value
from pipeline_broker.config.resolution import BrokerSettings, topic_value
from pipeline_broker.log.segments.policies import CompactionRules, FlushRules, LogPolicies
from pipeline_broker.log.segments.retention import RetentionRules, RollRules
from pipeline_broker.records.check import Rules
from pipeline_broker.records.compression import LEVEL_DEFAULTS, Compression
from pipeline_broker.records.decompression import DECOMPRESSED_SIZE_MAX
from pipeline_broker.records.recompression import Target
from pipeline_broker.state.metadata_records import Topic

__all__ = ["flush_rules_of", "policies_of", "rules_of"]

# Values of `compression.type`.
AS_PRODUCED = "producer"
UNCOMPRESSED = "uncompressed"
CODECS: Mapping[Value, Compression] = {
    UNCOMPRESSED: Compression.NONE,
    **{codec.name.lower(): codec for codec in Compression if codec is not Compression.NONE},
}
GZIP_LEVEL_UNSET = -1


def rules_of(topic: Topic, settings: BrokerSettings) -> Rules:
    """Return the rules that batches of a topic must follow."""
    own = topic.configs
    policies = topic_value("cleanup.policy", own, settings)
    assert isinstance(policies, tuple)
    size_max = _integer("max.message.bytes", own, settings)
    return Rules(
        size_max=size_max,
        decompressed_size_max=max(DECOMPRESSED_SIZE_MAX, size_max),
        segment_size_max=_integer("segment.bytes", own, settings),
        timestamp_before_max_ms=_integer("message.timestamp.before.max.ms", own, settings),
        timestamp_after_max_ms=_integer("message.timestamp.after.max.ms", own, settings),
        keys_required="compact" in policies,
        append_time=topic_value("message.timestamp.type", own, settings) == "LogAppendTime",
        compression=_compression(own, settings),
    )


def _compression(own: Mapping[str, str], settings: BrokerSettings) -> Target | None:
    name = topic_value("compression.type", own, settings)
    if name == AS_PRODUCED:
        return None
    codec = CODECS[name]
    level = _integer(f"compression.{name}.level", own, settings) if codec in LEVEL_DEFAULTS else None
    return Target(codec, None if codec == Compression.GZIP and level == GZIP_LEVEL_UNSET else level)


def policies_of(topic: Topic, settings: BrokerSettings, producer_expiration_ms: int) -> LogPolicies:
    """Return the policies for the files of a topic's logs: roll, retention, compaction and flush."""
    own = topic.configs
    policies = topic_value("cleanup.policy", own, settings)
    assert isinstance(policies, tuple)
    segment_bytes = _integer("segment.bytes", own, settings)
    max_compaction_lag_ms = _integer("max.compaction.lag.ms", own, settings)
    compaction = None
    if "compact" in policies:
        ratio = topic_value("min.cleanable.dirty.ratio", own, settings)
        assert isinstance(ratio, float)
        compaction = CompactionRules(
            min_cleanable_dirty_ratio=ratio,
            min_compaction_lag_ms=_integer("min.compaction.lag.ms", own, settings),
            max_compaction_lag_ms=max_compaction_lag_ms,
            delete_retention_ms=_integer("delete.retention.ms", own, settings),
            segment_bytes=segment_bytes,
        )
    return LogPolicies(
        roll=RollRules(
            segment_bytes=segment_bytes,
            segment_ms=_integer("segment.ms", own, settings),
            segment_jitter_ms=_integer("segment.jitter.ms", own, settings),
            compact=compaction is not None,
            max_compaction_lag_ms=max_compaction_lag_ms,
        ),
        retention=RetentionRules(
            delete="delete" in policies,
            retention_ms=_integer("retention.ms", own, settings),
            retention_bytes=_integer("retention.bytes", own, settings),
        ),
        compaction=compaction,
        file_delete_delay_ms=_integer("file.delete.delay.ms", own, settings),
        producer_expiration_ms=producer_expiration_ms,
        flush=flush_rules_of(own, settings),
    )


def flush_rules_of(own: Mapping[str, str], settings: BrokerSettings) -> FlushRules:
    """Return the flush rules for a topic with these settings of its own."""
    return FlushRules(messages=_integer("flush.messages", own, settings), ms=_integer("flush.ms", own, settings))


def _integer(name: str, own: Mapping[str, str], settings: BrokerSettings) -> int:
    value = topic_value(name, own, settings)
    assert isinstance(value, int)
    return value
