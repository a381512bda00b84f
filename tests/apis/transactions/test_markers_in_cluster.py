"""Markers for partitions that other brokers lead carry the number of the process that sends them."""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.transactions.describe_producers import DescribeProducersRequest
from pipeline_broker.wire.messages.transactions.write_txn_markers import WriteTxnMarkersRequest
from tests.apis.cluster_desk import BROKERS, ClusterDesk, LoneController
from tests.apis.topics.test_large_topics import CREATE, creation
from tests.apis.transactions.transaction_desk import TRANSACTION, Producer

SETTINGS = ("transaction.state.log.num.partitions=3",)


class SilentPeers(LoneController):
    def __init__(self):
        self.asked = []

    def ask(self, node_id, request, response_type, done):
        self.asked.append((node_id, request))


class SilentDesk(ClusterDesk):
    def __init__(self, *settings, files=None):
        self.cluster = SilentPeers()
        super().__init__(*settings, files=files)

    def sent_numbers(self):
        self.now_ms += 1000
        self.broker.advance(self.now_ms)
        requests = [request for _, request in self.cluster.asked if isinstance(request, WriteTxnMarkersRequest)]
        return {marker.coordinator_epoch for request in requests for marker in request.markers}

    def numbers_here(self, partition):
        asked = DescribeProducersRequest([DescribeProducersRequest.TopicRequest("t", [partition])])
        ((found,),) = (topic.partitions for topic in self.ask(asked, 0).topics)
        return [each.coordinator_epoch for each in found.active_producers]


def test_markers_of_a_restarted_controller_carry_the_number_of_its_new_process():
    """With the earlier number, late markers of the killed process would end later transactions."""
    desk = SilentDesk(*SETTINGS)
    desk.ask(creation(len(BROKERS), "t"), CREATE)
    assert desk.ask(FindCoordinatorRequest("x", TRANSACTION), 2).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    topic = desk.broker.topics.get("t")
    (here,) = (number for number, it in desk.image.partitions(topic.topic_id).items() if it.leader == 1)
    names = (str(number) for number in range(100))
    name = next(it for it in names if not isinstance(desk.broker.transactions.coordinator_of(it), ErrorCode))
    producer = Producer(desk, name, version=4)
    desk.ask(producer.add(*range(len(BROKERS))), 3)
    assert desk.ask(producer.produce(here), 9).responses[0].partition_responses[0].error_code == 0
    assert producer.ended(version=3) == 0
    # The epoch is the sum of the numbers of all processes; the other brokers keep theirs.
    others = len(BROKERS) - 1
    assert desk.sent_numbers() == {others + 1}
    assert desk.numbers_here(here) == [others + 1]
    for number in (others + 2, others + 3):
        desk = desk.restart()
        assert desk.sent_numbers() == {number}
    assert desk.numbers_here(here) == [others + 3]
