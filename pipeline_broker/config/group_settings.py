"""The effective settings of one group: its own within the broker's limits, and the broker's for the rest."""

from __future__ import annotations

import functools
from typing import Any, ClassVar, Self

import attrs

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.properties import Property, Settings, fields_of, properties_of

__all__ = ["ConsumerGroupSettings", "GroupSettings", "ShareGroupSettings", "StreamsGroupSettings"]


@attrs.frozen(kw_only=True)
class GroupSettings:
    """Settings of one group. A field is Kafka's setting without the kind of group, and with `_` for `.`."""

    KIND: ClassVar[str]

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int

    @classmethod
    def of(cls, config: BrokerConfig, own: Settings) -> Self:
        """Return the effective settings of a group with the settings `own`.

        As in Kafka, a setting outside the broker's limits counts as the nearest limit: the limits may change after it
        was set.
        """
        values: dict[str, Any] = {}
        for name, definition, inherited in _settings(cls.KIND):
            text = own.get(definition.name)
            if text is not None:
                values[name] = definition.parse(text)
                limits = None if inherited is None else cls.limits(config, name)
                if limits is not None:
                    least, most = limits
                    values[name] = min(max(values[name], least), most)
            elif inherited is not None:
                values[name] = cls.of_broker(config, inherited)
        return cls(**values)

    @classmethod
    def of_broker(cls, config: BrokerConfig, field: str) -> Any:
        return getattr(config, field)

    @classmethod
    def limits(cls, config: BrokerConfig, field: str) -> tuple[int, int] | None:
        """Return the broker's minimum and maximum of an inherited field; None if it has none."""
        return getattr(config, f"group_{cls.KIND}_min_{field}"), getattr(config, f"group_{cls.KIND}_max_{field}")

    @classmethod
    def inherited(cls) -> list[str]:
        """Return the fields that a group inherits from the broker, which also limits them."""
        inherited = {name for name, _, of_broker in _settings(cls.KIND) if of_broker is not None}
        return [field.name for field in attrs.fields(cls) if field.name in inherited]


@attrs.frozen(kw_only=True, field_transformer=fields_of("group", "consumer."))
class ConsumerGroupSettings(GroupSettings):
    KIND: ClassVar[str] = "consumer"


@attrs.frozen(kw_only=True, field_transformer=fields_of("group", "share."))
class ShareGroupSettings(GroupSettings):
    """The settings of one share group (KIP-932).

    Attributes:
        delivery_count_limit: a record that returns after this many deliveries is archived.
        partition_max_record_locks: size of the window of a share partition in offsets; a full window grows no further.
        auto_offset_reset: where the group starts to read a new partition: `latest`, `earliest`, or `by_duration:` with
            an ISO 8601 duration.
        isolation_level: `read_uncommitted` or `read_committed`.
        renew_acknowledge_enable: whether members may renew their record locks.
    """

    KIND: ClassVar[str] = "share"

    record_lock_duration_ms: int
    delivery_count_limit: int
    partition_max_record_locks: int
    auto_offset_reset: str
    isolation_level: str
    renew_acknowledge_enable: bool


@attrs.frozen(kw_only=True, field_transformer=fields_of("group", "streams."))
class StreamsGroupSettings(GroupSettings):
    """The settings of one streams group (KIP-1071).

    Attributes:
        num_standby_replicas: standby tasks for each task with state.
        initial_rebalance_delay_ms: time between the first member and the first assignment.
        rack_aware_assignment_tags: keys of client tags that members should have.
    """

    KIND: ClassVar[str] = "streams"

    num_standby_replicas: int
    initial_rebalance_delay_ms: int
    rack_aware_assignment_tags: tuple[str, ...]
    assignor_name: str

    @classmethod
    def of_broker(cls, config: BrokerConfig, field: str) -> Any:
        if field == "group_streams_assignors":
            return config.streams_assignors[0]
        return super().of_broker(config, field)

    @classmethod
    def limits(cls, config: BrokerConfig, field: str) -> tuple[int, int] | None:
        if field == "num_standby_replicas":
            return 0, config.group_streams_max_standby_replicas
        if field in {"initial_rebalance_delay_ms", "rack_aware_assignment_tags", "assignor_name"}:
            return None
        return super().limits(config, field)


@functools.cache
def _settings(kind: str) -> list[tuple[str, Property, str | None]]:
    """Return the fields of a kind of group, their definitions, and the fields of the broker that they inherit."""
    found = []
    for name, definition in properties_of("group").items():
        if name.startswith(f"{kind}."):
            inherited = definition.broker_property
            field = name.removeprefix(f"{kind}.").replace(".", "_")
            found.append((field, definition, None if inherited is None else inherited.replace(".", "_")))
    return found
