"""Settings of share groups (KIP-932): the broker's properties, and the effective settings of one group."""

from collections.abc import Mapping

import attrs

from pipeline_broker.config.properties import broker_properties
from pipeline_broker.config.share_properties import SHARE_PROPERTIES

__all__ = ["GroupShareSettings", "ShareSettings", "group_share_settings", "share_settings"]


@attrs.frozen(kw_only=True)
class ShareSettings:
    """The broker's properties for share groups, named as in Kafka with `_` for `.`."""

    group_share_assignment_interval_ms: int = 1000
    group_share_assignors: tuple[str, ...] = ("simple",)
    group_share_delivery_count_limit: int = 5
    group_share_heartbeat_interval_ms: int = 5000
    group_share_max_assignment_interval_ms: int = 15000
    group_share_max_delivery_count_limit: int = 10
    group_share_max_heartbeat_interval_ms: int = 15000
    group_share_max_partition_max_record_locks: int = 4000
    group_share_max_record_lock_duration_ms: int = 60000
    group_share_max_session_timeout_ms: int = 60000
    group_share_max_share_sessions: int = 2000
    group_share_max_size: int = 200
    group_share_min_assignment_interval_ms: int = 0
    group_share_min_delivery_count_limit: int = 2
    group_share_min_heartbeat_interval_ms: int = 5000
    group_share_min_partition_max_record_locks: int = 100
    group_share_min_record_lock_duration_ms: int = 15000
    group_share_min_session_timeout_ms: int = 45000
    group_share_partition_max_record_locks: int = 2000
    group_share_record_lock_duration_ms: int = 30000
    group_share_session_timeout_ms: int = 45000
    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_state_topic_num_partitions: int = 50


assert {field.name.replace("_", ".") for field in attrs.fields(ShareSettings)} == SHARE_PROPERTIES


@attrs.frozen(kw_only=True)
class GroupShareSettings:
    """The effective settings of one share group.

    Attributes:
        auto_offset_reset: where the group starts to read a new partition: `latest`, `earliest`, or `by_duration:` with
            an ISO 8601 duration.
        isolation_level: `read_uncommitted` or `read_committed`.
        renew_acknowledge: whether members may renew their record locks.
    """

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int
    record_lock_duration_ms: int
    delivery_count_limit: int
    partition_max_record_locks: int
    auto_offset_reset: str = "latest"
    isolation_level: str = "read_uncommitted"
    renew_acknowledge: bool = True


def share_settings(texts: Mapping[str, str]) -> ShareSettings:
    """Return the broker's settings; `texts` are the settings by name."""
    known = broker_properties()
    fields = {name.replace(".", "_"): known[name].parse(texts[name]) for name in SHARE_PROPERTIES & texts.keys()}
    return ShareSettings(**fields)  # type: ignore[arg-type]  # the table and the fields have the same types


def group_share_settings(broker: ShareSettings, group: Mapping[str, str]) -> GroupShareSettings:
    """Return the effective settings of a group with the settings `group` of its own.

    As in Kafka, a setting outside the broker's limits counts as the nearest limit: the limits may change after it was
    set.
    """

    def number(name: str, default: int, low: int, high: int) -> int:
        return min(max(int(group[name]), low), high) if name in group else default

    return GroupShareSettings(
        session_timeout_ms=number(
            "share.session.timeout.ms",
            broker.group_share_session_timeout_ms,
            broker.group_share_min_session_timeout_ms,
            broker.group_share_max_session_timeout_ms,
        ),
        heartbeat_interval_ms=number(
            "share.heartbeat.interval.ms",
            broker.group_share_heartbeat_interval_ms,
            broker.group_share_min_heartbeat_interval_ms,
            broker.group_share_max_heartbeat_interval_ms,
        ),
        assignment_interval_ms=number(
            "share.assignment.interval.ms",
            broker.group_share_assignment_interval_ms,
            broker.group_share_min_assignment_interval_ms,
            broker.group_share_max_assignment_interval_ms,
        ),
        record_lock_duration_ms=number(
            "share.record.lock.duration.ms",
            broker.group_share_record_lock_duration_ms,
            broker.group_share_min_record_lock_duration_ms,
            broker.group_share_max_record_lock_duration_ms,
        ),
        delivery_count_limit=number(
            "share.delivery.count.limit",
            broker.group_share_delivery_count_limit,
            broker.group_share_min_delivery_count_limit,
            broker.group_share_max_delivery_count_limit,
        ),
        partition_max_record_locks=number(
            "share.partition.max.record.locks",
            broker.group_share_partition_max_record_locks,
            broker.group_share_min_partition_max_record_locks,
            broker.group_share_max_partition_max_record_locks,
        ),
        auto_offset_reset=group.get("share.auto.offset.reset", "latest"),
        isolation_level=group.get("share.isolation.level", "read_uncommitted"),
        renew_acknowledge=group.get("share.renew.acknowledge.enable", "true").lower() == "true",
    )
