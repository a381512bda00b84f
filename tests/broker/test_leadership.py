"""The view of a broker on its cluster, of which it is the only member."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker.leadership import BrokerAddress, Leader, Leadership, epoch_error
from pipeline_broker.log.leader_epochs import NO_EPOCH

ALONE = Leadership(7, {"PLAINTEXT": ("broker.example", 9092)}.get, lambda topic, partition: len(topic) + partition)


def test_a_listener_that_is_not_advertised_has_no_brokers_and_no_coordinator():
    here = BrokerAddress(7, "broker.example", 9092)
    assert (ALONE.brokers("PLAINTEXT"), ALONE.coordinator("PLAINTEXT", "t", 0)) == ([here], here)
    assert (ALONE.brokers("INTERNAL"), ALONE.coordinator("INTERNAL", "t", 0)) == ([], None)


def test_the_only_broker_leads_and_holds_every_partition_and_is_the_controller():
    assert ALONE.leader_of("t", 3) == Leader(7, 4)
    assert (ALONE.replicas_of("t", 3), ALONE.controller_id()) == ([7], 7)


@pytest.mark.parametrize(
    ("epoch", "error"),
    [
        (NO_EPOCH, None),
        (0, None),
        (1, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (-2, ErrorCode.FENCED_LEADER_EPOCH),
    ],
)
def test_a_client_with_another_epoch_is_refused(epoch, error):
    assert epoch_error(epoch, 0) is error
