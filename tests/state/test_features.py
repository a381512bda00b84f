"""Features; errors and finalized levels were observed on Apache Kafka 4.4."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.cluster_id import ClusterId
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.features import FEATURES, FeatureError, Features, FeatureUpdate, UpgradeType
from pipeline_broker.state.metadata_records import RecordType, record_key, record_value
from pipeline_broker.wire.registry import ApiKey

ALL = frozenset(ApiKey)
LEADERS = "eligible.leader.replicas.version"


def update(features, *updates, served=ALL, validate_only=False):
    return features.update([FeatureUpdate(*each) for each in updates], served, validate_only=validate_only)


def finalized(features, served=ALL):
    return dict(features.finalized(served))


def test_the_last_of_several_pending_levels_wins():
    """Also if another change is decided before the last of them is durable."""
    features, level, name = of_new_cluster(), 1, "transaction.version"
    writes = [update(features, (name, to, 2 if to < 2 else 1)) for to in (level, 2, level)]
    for write in writes[:2]:
        features.durable(write)
    assert update(features, (name, level, 2)) is None, "it is on its way"
    last = update(features, (name, 2, 1))
    for write in (writes[2], last):
        features.durable(write)
    assert features.level(name) == 2
    assert name not in features._pending, "durable levels are not pending"


def of_new_cluster():
    cluster = ClusterId()
    cluster.durable(cluster.create("id"))
    return Features(cluster)


def test_a_new_cluster_has_kafkas_levels():
    assert finalized(of_new_cluster()) == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "kraft.version": 1,
        "metadata.version": 33,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }
    assert of_new_cluster().epoch == 0, "nothing has changed"


def test_a_cluster_of_an_earlier_release_keeps_its_levels_until_they_are_raised():
    features = Features(ClusterId())
    new = finalized(of_new_cluster())
    before = new | {"metadata.version": 30, "share.version": 1}
    del before["streams.version"]
    assert finalized(features) == before
    features.durable(update(features, *new.items()))
    assert finalized(features) == new


@pytest.mark.parametrize("feature", [each for each in FEATURES.values() if each.needs is not None], ids=str)
def test_a_feature_without_its_api_is_neither_offered_nor_changed(feature):
    features, served = of_new_cluster(), ALL - {feature.needs}
    assert feature.name not in finalized(features, served)
    assert feature not in features.supported(served)
    with pytest.raises(FeatureError) as raised:
        update(features, (feature.name, feature.max_level), served=served)
    assert raised.value.message.endswith("Local controller 1 does not support this feature.")


def test_a_level_applies_once_durable_and_after_a_restart():
    features = of_new_cluster()
    write = update(features, (LEADERS, 0, UpgradeType.SAFE_DOWNGRADE), ("transaction.version", 1, 2))
    assert (features.level(LEADERS), features.epoch) == (1, 0)
    features.durable(write)
    restarted = of_new_cluster()
    for record in write.records:
        restarted.replay(record.key, record.value)
    for each in (features, restarted):
        assert LEADERS not in finalized(each), "level 0 is not finalized"
        assert (each.level("transaction.version"), each.epoch) == (1, 1)


def test_the_epoch_grows_with_every_change():
    features = of_new_cluster()
    first = update(features, (LEADERS, 0, 2))
    second = update(features, (LEADERS, 1))
    assert second is not None, "the pending level decides"
    features.durable(first)
    features.durable(second)
    assert (features.level(LEADERS), features.epoch) == (1, 2)


def test_equal_levels_and_validation_change_nothing():
    features = of_new_cluster()
    assert update(features, ("metadata.version", 33), ("kraft.version", 1)) is None
    assert update(features, (LEADERS, 0, 2), validate_only=True) is None
    assert finalized(features) == finalized(of_new_cluster())


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (("metadata.version", 99), "Local controller 1 only supports versions 7-33"),
        (("no.such.feature", 1), "Local controller 1 does not support this feature."),
        (("transaction.version", -1), "A feature version cannot be less than 0."),
        (("transaction.version", 2, 0), "The controller does not support the given upgrade type."),
        (("transaction.version", 2, 9), "The controller does not support the given upgrade type."),
        (("kraft.version", 0, 2), "Can't downgrade the version of this feature."),
        (
            ("transaction.version", 1),
            "without setting the upgrade type to either safe or unsafe downgrade.",
        ),
        (
            ("metadata.version", 29, 2),
            "Refusing to perform the requested downgrade because it might delete metadata information.",
        ),
        (("metadata.version", 20, 3), "Unsafe metadata downgrade is not supported in this version."),
    ],
)
def test_invalid_updates_get_kafkas_errors(wanted, reason):
    features = of_new_cluster()
    with pytest.raises(FeatureError) as raised:
        update(features, (LEADERS, 0, 2), wanted)
    assert raised.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert raised.value.message.endswith(reason)
    assert features._pending.all_latest({}) == {}, "all or none"


def test_a_downgrade_does_not_go_up():
    features = of_new_cluster()
    features.durable(update(features, (LEADERS, 0, 2)))
    with pytest.raises(FeatureError) as raised:
        update(features, (LEADERS, 1, UpgradeType.SAFE_DOWNGRADE))
    assert raised.value.message.endswith("Can't downgrade to a newer version.")


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"level": "x", "epoch": 1}'])
def test_a_corrupt_record_raises_an_error(body):
    with pytest.raises(CorruptStateRecordError):
        of_new_cluster().replay(record_key(RecordType.FEATURE, LEADERS), record_value(body))


def test_records_of_other_types_are_ignored():
    features = of_new_cluster()
    features.replay(record_key(RecordType.TOPIC, "t"), None)
    assert features.epoch == 0


@pytest.mark.parametrize("upgrade_type", [1, 2, 3])
def test_the_present_level_is_valid_for_any_upgrade_type(upgrade_type):
    features = of_new_cluster()
    before = finalized(features)
    assert update(features, (LEADERS, before[LEADERS], upgrade_type)) is None
    assert (finalized(features), features.epoch) == (before, 0)
