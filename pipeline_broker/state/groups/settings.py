"""Broker settings of groups, with Kafka's defaults.

This module holds only values and imports no kind of group.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

__all__ = ["GROUP_CONFIGS", "GroupSettings"]

INT32_MAX = 2**31 - 1


@attrs.frozen(kw_only=True)
class GroupSettings:
    """Kafka's settings of groups and committed offsets; those that begin with `consumer_` belong to KIP-848.

    `memory_bytes_max` has no counterpart in Kafka; see `memory.py`.
    """

    memory_bytes_max: int = 134_217_728

    initial_rebalance_delay_ms: int = 3_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    group_size_max: int = INT32_MAX
    new_member_join_timeout_ms: int = 300_000
    offset_metadata_size_max: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
    offsets_retention_check_interval_ms: int = 600_000
    consumer_session_timeout_ms: int = 45_000
    consumer_session_timeout_ms_min: int = 45_000
    consumer_session_timeout_ms_max: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    consumer_heartbeat_interval_ms_min: int = 5_000
    consumer_heartbeat_interval_ms_max: int = 15_000
    consumer_assignment_interval_ms: int = 1_000
    consumer_assignment_interval_ms_min: int = 0
    consumer_assignment_interval_ms_max: int = 15_000
    consumer_group_size_max: int = INT32_MAX
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_upgrade_enabled: bool = True
    consumer_downgrade_enabled: bool = True

    def of_group(self, configs: Mapping[str, str]) -> GroupSettings:
        """Return the settings of one group, with its config overrides clamped to the broker's current bounds."""
        changes: dict[str, Any] = {}
        for name, field in GROUP_CONFIGS.items():
            if name in configs:
                least, most = getattr(self, f"{field}_min"), getattr(self, f"{field}_max")
                changes[field] = min(max(int(configs[name]), least), most)
        return attrs.evolve(self, **changes) if changes else self


GROUP_CONFIGS: Mapping[str, str] = {
    "consumer.session.timeout.ms": "consumer_session_timeout_ms",
    "consumer.heartbeat.interval.ms": "consumer_heartbeat_interval_ms",
    "consumer.assignment.interval.ms": "consumer_assignment_interval_ms",
}
"""Configs that may be overridden per group, and the field that each one replaces."""
