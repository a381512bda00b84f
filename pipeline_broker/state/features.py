"""Features of the cluster: supported and finalized levels (KIP-584, KIP-1022).

    key   = int16 type, then                            value = int16 version 0, then
    9 feature       name in UTF-8                       JSON {"level": n, "epoch": n}

The key types continue those of `metadata_records.py`. Error codes and texts are Kafka's.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping

import attrs

from pipeline_broker.base.error_code import ErrorCode, KafkaError
from pipeline_broker.state.cluster_id import ClusterId
from pipeline_broker.state.decisions import Decisions
from pipeline_broker.state.metadata_records import (
    INT64_MAX,
    RecordType,
    integer_of,
    object_of,
    reading,
    record_key,
    record_type,
    record_value,
    text_subject_of,
)
from pipeline_broker.state.outcome import ReplayedWrites, StateRecord, Write
from pipeline_broker.wire.registry import ApiKey

__all__ = [
    "FEATURES",
    "METADATA_VERSION",
    "Feature",
    "FeatureError",
    "FeatureUpdate",
    "Features",
    "UpgradeType",
    "read_feature",
]

METADATA_VERSION = "metadata.version"
KRAFT_VERSION = "kraft.version"
INT16_MAX = 2**15 - 1


@attrs.frozen
class Feature:
    """A feature with its levels.

    Attributes:
        name: Kafka's name.
        min_level, max_level: levels that this broker supports.
        level: finalized level of a new cluster; 0 means not finalized.
        earlier: level of a cluster that began before Kafka 4.4; None means `level`.
        needs: the API that the feature requires; None if it requires none.
    """

    name: str
    min_level: int
    max_level: int
    level: int
    needs: ApiKey | None = None
    earlier: int | None = None


FEATURES: Mapping[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("eligible.leader.replicas.version", 0, 1, 1),
        Feature("group.version", 0, 1, 1, ApiKey.CONSUMER_GROUP_HEARTBEAT),
        Feature(KRAFT_VERSION, 0, 1, 1),
        Feature(METADATA_VERSION, 7, 33, 33, earlier=30),
        Feature("share.version", 0, 2, 2, ApiKey.SHARE_GROUP_HEARTBEAT, earlier=1),
        Feature("streams.version", 0, 1, 1, ApiKey.STREAMS_GROUP_HEARTBEAT, earlier=0),
        Feature("transaction.version", 0, 2, 2, ApiKey.END_TXN),
    )
}
"""The features of Apache Kafka 4.4, with the levels of a new cluster."""


class UpgradeType:
    """Upgrade types of UpdateFeatures, numbered as on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


KNOWN_TYPES = frozenset({UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE})


@attrs.frozen
class FeatureUpdate:
    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


class FeatureError(KafkaError):
    pass


def read_feature(key: bytes, value: bytes | None) -> tuple[str, int, int]:
    """Decode a record to name, level and epoch of the change; raise CorruptStateRecordError if that fails."""
    name = text_subject_of(key)
    with reading(f"feature {name!r}"):
        body = object_of(value)
        return name, integer_of(body["level"], 0, INT16_MAX), integer_of(body["epoch"], 0, INT64_MAX)


class Features(ReplayedWrites):
    """The finalized levels of all features.

    Args:
        cluster: decides the levels of features without a record.

    Attributes:
        epoch: grows with every change; 0 before the first one.
    """

    def __init__(self, cluster: ClusterId) -> None:
        self.epoch = 0
        self._cluster = cluster
        self._levels: dict[str, int] = {}
        self._pending: Decisions[str, int] = Decisions()
        self._pending_epoch = 0

    def level(self, name: str) -> int:
        feature = FEATURES[name]
        earlier = feature.earlier if self._cluster.release is None else None
        return self._levels.get(name, feature.level if earlier is None else earlier)

    @staticmethod
    def supported(served: Container[int]) -> list[Feature]:
        # A feature without its API would promise something that the broker does not do.
        return [feature for feature in FEATURES.values() if feature.needs is None or feature.needs in served]

    def finalized(self, served: Container[int]) -> list[tuple[str, int]]:
        """Return names and levels of the supported features, without those at level 0."""
        levels = ((feature.name, self.level(feature.name)) for feature in self.supported(served))
        return [(name, level) for name, level in levels if level]

    def update(self, updates: Iterable[FeatureUpdate], served: Container[int], *, validate_only: bool) -> Write | None:
        """Change levels, either all or none.

        Args:
            updates: the requested levels.
            served: keys of the APIs that the broker serves.
            validate_only: change nothing.

        Returns:
            the write that makes the levels final; None if nothing changes or `validate_only` is set.

        Raises:
            FeatureError: an update has an unknown type or feature or an unsupported level, or is a downgrade that is
                not allowed.
        """
        known = {feature.name: feature for feature in self.supported(served)}
        wanted = list(updates)
        # All updates are validated before any of them becomes pending.
        for update in wanted:
            self._check(update, known)
        changed = {update.name: update.level for update in wanted if update.level != self._latest(update.name)}
        if validate_only or not changed:
            return None
        self._pending_epoch = max(self._pending_epoch, self.epoch) + 1
        for name, level in changed.items():
            self._pending.add(name, level)
        return Write("", tuple(_record(name, level, self._pending_epoch) for name, level in changed.items()))

    def _latest(self, name: str) -> int:
        return self._pending.latest(name, self.level(name))

    def _check(self, update: FeatureUpdate, known: Mapping[str, Feature]) -> None:
        # Texts are Kafka's. The single broker is controller 1.
        if update.upgrade_type not in KNOWN_TYPES:
            raise _invalid(update, "The controller does not support the given upgrade type.")
        if update.level < 0:
            raise _invalid(update, "A feature version cannot be less than 0.")
        feature = known.get(update.name)
        if feature is None:
            raise _invalid(update, "Local controller 1 does not support this feature.")
        if not feature.min_level <= update.level <= feature.max_level:
            supports = f"versions {feature.min_level}-{feature.max_level}"
            raise _invalid(update, f"Local controller 1 only supports {supports}")
        now = self._latest(update.name)
        if update.level < now:
            _check_downgrade(update, now)
        elif update.level > now and update.upgrade_type != UpgradeType.UPGRADE:
            raise _invalid(update, "Can't downgrade to a newer version.")

    def replay(self, key: bytes, value: bytes | None) -> None:
        if record_type(key) != RecordType.FEATURE:
            return
        name, level, epoch = read_feature(key, value)
        self._levels[name] = level
        self.epoch = max(self.epoch, epoch)
        self._pending.settle(name)


def _check_downgrade(update: FeatureUpdate, now: int) -> None:
    if update.name == KRAFT_VERSION:
        raise _invalid(update, "Can't downgrade the version of this feature.")
    if update.upgrade_type == UpgradeType.UPGRADE:
        reason = "Can't downgrade the version of this feature without setting the upgrade type to either safe or"
        raise _invalid(update, f"{reason} unsafe downgrade.")
    if update.name == METADATA_VERSION:
        is_safe = update.upgrade_type == UpgradeType.SAFE_DOWNGRADE
        reason = (
            "Refusing to perform the requested downgrade because it might delete metadata information."
            if is_safe
            else "Unsafe metadata downgrade is not supported in this version."
        )
        text = f"Unsupported metadata.version downgrade from {now} to {update.level}. {reason}"
        raise FeatureError(ErrorCode.INVALID_UPDATE_VERSION, text)


def _invalid(update: FeatureUpdate, reason: str) -> FeatureError:
    message = f"Invalid update version {update.level} for feature {update.name}. {reason}"
    return FeatureError(ErrorCode.INVALID_UPDATE_VERSION, message)


def _record(name: str, level: int, epoch: int) -> StateRecord:
    value = record_value(json.dumps({"level": level, "epoch": epoch}, sort_keys=True))
    return StateRecord(record_key(RecordType.FEATURE, name), value)
