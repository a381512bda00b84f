"""A request that asks the coordinator of another broker."""

import pytest

from pipeline_broker.apis.transactions.remote_coordinator import ask_coordinator
from pipeline_broker.apis.transactions.transaction_errors import Joining
from pipeline_broker.state.transactions.coordinator import Producer
from pipeline_broker.wire.registry import ApiKey
from stages.request import Waiting
from tests.apis.cluster_desk import ClusterDesk
from tests.apis.topics.test_large_topics import CREATE, creation


@pytest.mark.parametrize("joining", [Joining.ADDED, Joining.REFUSED])
def test_a_large_request_gives_its_place_to_the_next_one_while_it_waits(joining):
    desk = ClusterDesk()
    desk.ask(creation(3, "t"), CREATE)
    call, line = desk.call(ApiKey.PRODUCE, 12), desk.broker.large_requests
    assert line.enter(call)
    logs = desk.broker.logs.partitions("t")
    assert isinstance(next(ask_coordinator(call, 2, "x", Producer(1, 0), logs, joining)), Waiting)
    assert line.enter(desk.call(ApiKey.ADD_PARTITIONS_TO_TXN, 5))
