"""The features of the cluster: which levels there are, and which of them is finalized (KIP-584, KIP-1022).

    key   = int16 type, then                            value = int16 version 0, then
    9 feature       name in UTF-8                       JSON {"level": n, "epoch": n}

Rules of this file: see `state/metadata_records.py`, whose key types these continue. What a broker supports is data, one
row a feature; a row counts only where the APIs that make it true are served, so that nothing is promised that is not
there. A level that nobody has set is the one that Apache Kafka 4.3 gives a new cluster. The epoch grows with every
change. Codes and texts of refusals are Kafka's.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping

import attrs

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
from pipeline_broker.wire.error import ErrorCode, KafkaError
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
    """One feature.

    Attributes:
        name: Kafka's.
        min_level, max_level: what this broker supports.
        level: what a new cluster begins with; 0 is not finalized.
        needs: the API without which the feature is not there; None for what needs none.
    """

    name: str
    min_level: int
    max_level: int
    level: int
    needs: ApiKey | None = None


FEATURES: Mapping[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("eligible.leader.replicas.version", 0, 1, 1),
        Feature("group.version", 0, 1, 1, ApiKey.CONSUMER_GROUP_HEARTBEAT),
        Feature(KRAFT_VERSION, 0, 1, 1),
        Feature(METADATA_VERSION, 7, 30, 30),
        Feature("share.version", 0, 1, 1, ApiKey.SHARE_GROUP_HEARTBEAT),
        Feature("streams.version", 0, 1, 1, ApiKey.STREAMS_GROUP_HEARTBEAT),
        Feature("transaction.version", 0, 2, 2, ApiKey.END_TXN),
    )
}
"""The features and levels of Apache Kafka 4.3.1."""


class UpgradeType:
    """What UpdateFeatures asks for, numbered as on the wire."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


KNOWN_TYPES = frozenset({UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE})


@attrs.frozen
class FeatureUpdate:
    """A level that somebody wants."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


class FeatureError(KafkaError):
    """Why an update is refused."""


def read_feature(key: bytes, value: bytes | None) -> tuple[str, int, int]:
    """Read the name of a feature, its level, and the epoch of that change; raises CorruptStateRecordError."""
    name = text_subject_of(key)
    with reading(f"feature {name!r}"):
        body = object_of(value)
        return name, integer_of(body["level"], 0, INT16_MAX), integer_of(body["epoch"], 0, INT64_MAX)


class Features(ReplayedWrites):
    """The levels that are finalized.

    Attributes:
        epoch: of the last change; 0 before the first.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._levels: dict[str, int] = {}
        self._pending: Decisions[str, int] = Decisions()
        self._pending_epoch = 0

    def level(self, name: str) -> int:
        """The finalized level of a feature that is known."""
        return self._levels.get(name, FEATURES[name].level)

    @staticmethod
    def supported(served: Container[int]) -> list[Feature]:
        """The features that a broker with these APIs has."""
        return [feature for feature in FEATURES.values() if feature.needs is None or feature.needs in served]

    def finalized(self, served: Container[int]) -> list[tuple[str, int]]:
        """Their levels; what is at level 0 is not finalized."""
        levels = ((feature.name, self.level(feature.name)) for feature in self.supported(served))
        return [(name, level) for name, level in levels if level]

    def update(self, updates: Iterable[FeatureUpdate], served: Container[int], *, validate_only: bool) -> Write | None:
        """Decide new levels, all or none of them.

        Args:
            updates: what somebody wants.
            served: see `supported`.
            validate_only: change nothing.

        Returns:
            what makes them true; None where nothing changes.

        Raises:
            FeatureError: one of them cannot be had.
        """
        known = {feature.name: feature for feature in self.supported(served)}
        wanted = list(updates)
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
        """Take over one durable record; those of other subjects are read past.

        Raises:
            CorruptStateRecordError: it cannot be read.
        """
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
