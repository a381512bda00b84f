"""A member of a cluster applies the metadata of the controller, and opens the partitions that it leads in turns."""

import itertools

import pytest

from pipeline_broker.base.steps import finished
from pipeline_broker.broker.cluster_members import OPENED_MAX
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.apis.cluster_desk import ClusterDesk, MemberDesk
from tests.apis.topics.test_large_topics import CREATE, DELETE, creation, deletion

LARGE = 2_000


@pytest.fixture
def brokers():
    """The controller, and a member that has applied its records up to the returned offset."""
    controller = ClusterDesk()
    records, end = controller.records_since(0)
    return controller, MemberDesk(records), end


def apply_since(controller, member, offset):
    records, end = controller.records_since(offset)
    finished(member.broker.apply_metadata(records))
    return end


def test_partitions_are_opened_a_bounded_number_at_a_time_each_time_in_another_turn(brokers):
    controller, member, end = brokers
    controller.ask(creation(LARGE), CREATE)
    apply_since(controller, member, end)
    opened = [0]
    while member.broker.open_partitions(member.now_ms, lambda: None):
        opened.append(len(member.broker.logs.partitions("large")))
    assert max(after - before for before, after in itertools.pairwise(opened)) == OPENED_MAX
    topic = controller.broker.topics.get("large")
    led = [number for number, record in controller.image.partitions(topic.topic_id).items() if record.leader == 2]
    assert [log.partition for log in member.broker.logs.partitions("large")] == led
    assert len(led) > 2 * OPENED_MAX


def test_a_deleted_topic_is_forgotten_by_controller_and_member(brokers):
    controller, member, end = brokers
    controller.ask(creation(LARGE), CREATE)
    end = apply_since(controller, member, end)
    while member.broker.open_partitions(member.now_ms, lambda: None):
        pass
    controller.ask(deletion(), DELETE)
    apply_since(controller, member, end)
    assert not member.broker.open_partitions(member.now_ms, lambda: None)
    assert member.broker.logs.partitions("large") == ()
    assert member.broker.members.image.led() == controller.image.led() == {1: 0, 2: 0, 3: 0}


def test_producer_ids_of_the_controller_do_not_take_back_those_of_a_member(brokers):
    """A member has given out an id whose block is not durable yet."""
    controller, member, end = brokers
    controller.ask(InitProducerIdRequest(transactional_id=None), 4)
    given = member.broker.producer_ids.allocate().producer_id
    apply_since(controller, member, end)
    assert member.broker.producer_ids.allocate().producer_id == given + 1
