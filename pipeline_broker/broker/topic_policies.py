"""Rules for the batches and files of a topic, computed from its settings and those it inherits from the broker."""

from __future__ import annotations

from collections.abc import Mapping

from pipeline_broker.config.properties import Settings
from pipeline_broker.config.resolution import BrokerSettings
from pipeline_broker.config.topic_settings import TopicSettings
from pipeline_broker.log.segments.policies import CompactionRules, FlushRules, LogPolicies
from pipeline_broker.log.segments.retention import RetentionRules, RollRules
from pipeline_broker.records.check import Rules
from pipeline_broker.records.compression import Compression
from pipeline_broker.records.decompression import DECOMPRESSED_SIZE_MAX
from pipeline_broker.records.recompression import Target

__all__ = ["flush_rules_of", "policies_of", "rules_of"]

# Values of `compression.type`.
AS_PRODUCED = "producer"
UNCOMPRESSED = "uncompressed"
CODECS: Mapping[str, Compression] = {
    UNCOMPRESSED: Compression.NONE,
    **{codec.name.lower(): codec for codec in Compression if codec is not Compression.NONE},
}
GZIP_LEVEL_UNSET = -1
# Package of the classes in `confluent.value.subject.name.strategy`.
STRATEGIES = "io.confluent.kafka.serializers.subject."


def rules_of(settings: TopicSettings) -> Rules:
    return Rules(
        size_max=settings.max_message_bytes,
        decompressed_size_max=max(DECOMPRESSED_SIZE_MAX, settings.max_message_bytes),
        segment_size_max=settings.segment_bytes,
        timestamp_before_max_ms=settings.message_timestamp_before_max_ms,
        timestamp_after_max_ms=settings.message_timestamp_after_max_ms,
        keys_required="compact" in settings.cleanup_policy,
        subject_strategies=_subject_strategies(settings),
        append_time=settings.message_timestamp_type == "LogAppendTime",
        compression=_compression(settings),
    )


def _subject_strategies(settings: TopicSettings) -> tuple[tuple[str, str], ...]:
    found = []
    if settings.confluent_key_schema_validation:
        found.append(("key", settings.confluent_key_subject_name_strategy.removeprefix(STRATEGIES)))
    if settings.confluent_value_schema_validation:
        found.append(("value", settings.confluent_value_subject_name_strategy.removeprefix(STRATEGIES)))
    return tuple(found)


def _compression(settings: TopicSettings) -> Target | None:
    if settings.compression_type == AS_PRODUCED:
        return None
    codec = CODECS[settings.compression_type]
    level = {
        Compression.GZIP: settings.compression_gzip_level,
        Compression.LZ4: settings.compression_lz4_level,
        Compression.ZSTD: settings.compression_zstd_level,
    }.get(codec)
    return Target(codec, None if codec == Compression.GZIP and level == GZIP_LEVEL_UNSET else level)


def policies_of(settings: TopicSettings, producer_expiration_ms: int) -> LogPolicies:
    """Return the policies for the files of a topic's logs: roll, retention, compaction and flush."""
    compaction = None
    if "compact" in settings.cleanup_policy:
        compaction = CompactionRules(
            min_cleanable_dirty_ratio=settings.min_cleanable_dirty_ratio,
            min_compaction_lag_ms=settings.min_compaction_lag_ms,
            max_compaction_lag_ms=settings.max_compaction_lag_ms,
            delete_retention_ms=settings.delete_retention_ms,
            segment_bytes=settings.segment_bytes,
        )
    return LogPolicies(
        roll=RollRules(
            segment_bytes=settings.segment_bytes,
            segment_ms=settings.segment_ms,
            segment_jitter_ms=settings.segment_jitter_ms,
            compact=compaction is not None,
            max_compaction_lag_ms=settings.max_compaction_lag_ms,
        ),
        retention=RetentionRules(
            delete="delete" in settings.cleanup_policy,
            retention_ms=settings.retention_ms,
            retention_bytes=settings.retention_bytes,
        ),
        compaction=compaction,
        file_delete_delay_ms=settings.file_delete_delay_ms,
        producer_expiration_ms=producer_expiration_ms,
        flush=FlushRules(messages=settings.flush_messages, ms=settings.flush_ms),
    )


def flush_rules_of(own: Settings, settings: BrokerSettings) -> FlushRules:
    found = TopicSettings.of(own, settings)
    return FlushRules(messages=found.flush_messages, ms=found.flush_ms)
