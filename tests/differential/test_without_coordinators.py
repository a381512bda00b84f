"""A broker that coordinates no group or transaction answers with an error, and never as if one were empty."""

import pytest

from tests.differential.coordinator_requests import WITHOUT_COORDINATORS

pytestmark = pytest.mark.xdist_group("kafka")


@pytest.mark.parametrize("number", range(len(WITHOUT_COORDINATORS)))
def test_a_request_without_its_coordinator_is_answered_as_in_kafka(started, number):
    expected, *ours = started.without_coordinators[number]
    assert ours == [expected] * len(ours), WITHOUT_COORDINATORS[number]
