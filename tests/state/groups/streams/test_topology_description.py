"""Descriptions of topologies without a plugin: none is stored."""

import pytest

from pipeline_broker.state.groups.streams.topology_description import DescriptionStatus, description_status


@pytest.mark.parametrize(
    ("is_requested", "is_described", "status"),
    [
        (True, True, DescriptionStatus.NOT_STORED),
        (True, False, DescriptionStatus.NOT_REQUESTED),
        (False, True, DescriptionStatus.NOT_REQUESTED),
    ],
)
def test_a_requested_description_is_not_stored(is_requested, is_described, status):
    assert description_status(is_requested=is_requested, is_described=is_described) == status
