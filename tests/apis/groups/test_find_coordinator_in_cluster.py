"""FindCoordinator in a cluster: the leader of the partition, once the topic of the coordinators exists."""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from tests.apis.cluster_desk import BROKERS, ClusterDesk


def test_no_broker_is_named_before_the_leaders_are_known():
    desk = ClusterDesk("offsets.topic.num.partitions=6")
    assert desk.ask(FindCoordinatorRequest("g"), 2).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    topic = desk.broker.groups.topic
    found = [desk.ask(FindCoordinatorRequest(group), 2) for group in map(str, range(12))]
    assert {it.error_code for it in found} == {ErrorCode.NONE}
    expected = [desk.broker.leadership.leader_of(topic.name, topic.partition_of(str(number))) for number in range(12)]
    assert [it.node_id for it in found] == [leader.broker_id for leader in expected]
    assert {it.node_id for it in found} == set(BROKERS)
