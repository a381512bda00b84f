import json

import pytest
from confirmations import Confirmations


def order(number, *prices):
    return json.dumps({"id": number, "lines": [{"price": price} for price in prices]})


def totals(broker):
    return [json.loads(record.value)["total"] for record in broker.records("confirmations")]


def test_an_order_is_confirmed_with_its_total(broker, service):
    broker.produce("orders", order(1, 20, 3), key="alice")
    service.run(1)
    (confirmation,) = broker.records("confirmations")
    assert (confirmation.key, json.loads(confirmation.value)) == (b"alice", {"order": 1, "total": 23})


def test_offsets_of_confirmed_orders_are_committed(broker, service):
    for number in range(3):
        broker.produce("orders", order(number, number), partition=0)
    service.run(2)
    assert broker.offsets("confirmations") == {("orders", 0): 2}
    assert broker.lag("confirmations")["orders", 0] == 1


def test_a_restarted_service_continues_at_the_committed_offset(broker, service):
    broker.produce("orders", order(1, 1))
    service.run(1)
    service.close()
    broker.produce("orders", order(2, 2))
    successor = Confirmations(broker.bootstrap_servers)
    successor.run(1)
    successor.close()
    assert totals(broker) == [1, 2]


def test_a_service_with_an_expired_session_leaves_the_group(broker, service):
    broker.produce("orders", order(1, 1))
    service.run(1)
    broker.expire_member("confirmations")
    assert broker.groups()[0].members == ()


@pytest.mark.kafka(mode=["classic", "pipelined"])
def test_it_works_with_both_request_paths(broker, service):
    broker.produce("orders", order(1, 4, 5))
    service.run(1)
    assert totals(broker) == [9]
