"""The APIs of a feature answer UNSUPPORTED_VERSION while its level is 0."""

import re

import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.state.features import FEATURES, UpgradeType
from pipeline_broker.wire.messages.cluster.update_features import UpdateFeaturesRequest
from pipeline_broker.wire.messages.groups.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
)
from pipeline_broker.wire.messages.share.describe_share_group_offsets import DescribeShareGroupOffsetsRequest
from pipeline_broker.wire.messages.share.share_fetch import ShareFetchRequest
from pipeline_broker.wire.registry import ApiKey, message_classes
from tests.apis.desk import Desk
from tests.apis.first_requests import FIRST_REQUESTS

GATED = {key: served.feature for key, served in SERVED.items() if served.feature is not None}
OTHERS = {
    ApiKey.SHARE_FETCH: ShareFetchRequest(group_id="g", member_id="m"),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: DescribeShareGroupOffsetsRequest(
        [DescribeShareGroupOffsetsRequest.Group("g", None)]
    ),
    ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE: StreamsGroupTopologyDescriptionUpdateRequest("g"),
}


def request_of(key):
    return OTHERS[key] if key in OTHERS else FIRST_REQUESTS[key](message_classes(key)[0], None)


def set_level(desk, feature, level, upgrade_type):
    update = UpdateFeaturesRequest.FeatureUpdateKey(feature, level, upgrade_type=upgrade_type)
    assert not desk.ask(UpdateFeaturesRequest(1000, [update]), 1).error_code


def codes_of(response):
    return [int(code) for code in re.findall(r"error_code=(-?\d+)", str(response))]


def test_kafka_has_the_same_gated_apis():
    assert {SERVED[key].name for key in GATED} == {
        "AlterShareGroupOffsets",
        "ConsumerGroupDescribe",
        "ConsumerGroupHeartbeat",
        "DeleteShareGroupOffsets",
        "DescribeShareGroupOffsets",
        "ShareAcknowledge",
        "ShareFetch",
        "ShareGroupDescribe",
        "ShareGroupHeartbeat",
        "StreamsGroupDescribe",
        "StreamsGroupHeartbeat",
        "StreamsGroupTopologyDescriptionUpdate",
    }
    assert set(GATED.values()) <= set(FEATURES)


@pytest.mark.parametrize("key", [ApiKey.ALTER_SHARE_GROUP_OFFSETS, ApiKey.DELETE_SHARE_GROUP_OFFSETS])
def test_a_disabled_share_feature_refuses_changes_of_offsets_with_the_text_of_kafka(key):
    desk = Desk()
    set_level(desk, "share.version", 0, UpgradeType.UNSAFE_DOWNGRADE)
    assert desk.ask(request_of(key), 0).error_message == "The version of API is not supported."


@pytest.mark.parametrize("key", sorted(GATED), ids=lambda key: SERVED[key].name)
def test_a_disabled_feature_refuses_its_apis_until_it_is_raised_again(key):
    feature, version = GATED[key], SERVED[key].versions[-1]
    desk = Desk()
    desk.create_topic("t")
    set_level(desk, feature, 0, UpgradeType.UNSAFE_DOWNGRADE)
    assert ErrorCode.UNSUPPORTED_VERSION in codes_of(desk.ask(request_of(key), version))
    other = next(name for name in GATED.values() if name != feature)
    set_level(desk, other, 0, UpgradeType.UNSAFE_DOWNGRADE)
    set_level(desk, feature, 1, UpgradeType.UPGRADE)
    if key is not ApiKey.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE:  # refused like that without a plugin
        assert ErrorCode.UNSUPPORTED_VERSION not in codes_of(desk.ask(request_of(key), version))
