"""The settings of one topic that this broker acts on."""

from __future__ import annotations

from typing import NamedTuple

from pipeline_broker.config.properties import Settings
from pipeline_broker.config.resolution import BrokerSettings, topic_value

__all__ = ["TopicSettings"]


class TopicSettings(NamedTuple):
    """The effective settings of a topic. A field is Kafka's setting with `_` for `.`."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    confluent_key_schema_validation: bool
    confluent_key_subject_name_strategy: str
    confluent_value_schema_validation: bool
    confluent_value_subject_name_strategy: str
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_jitter_ms: int
    segment_ms: int

    @classmethod
    def of(cls, own: Settings, settings: BrokerSettings) -> TopicSettings:
        """Return the effective settings of a topic with the settings `own`; `settings` are those of the broker."""
        return cls._make(topic_value(name, own, settings) for name in NAMES)


NAMES = tuple(field.replace("_", ".") for field in TopicSettings._fields)
