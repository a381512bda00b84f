"""Brokers that outlive their tests."""

import attrs
import pytest
from confluent_kafka import Producer

from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded import retired
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.embedded.retired import RETIRED_BYTES_MAX, RETIRED_MAX, RetiredBrokers, surplus
from pipeline_broker.embedded.shown import Usage

IDLE, USED = Usage(0, 0), Usage(1, 0)


@pytest.mark.parametrize(
    ("usages", "closed"),
    [
        ([], set()),
        ([IDLE] * RETIRED_MAX, set()),
        ([USED] * (RETIRED_MAX + 2), {0, 1}),
        ([USED, *[IDLE] * RETIRED_MAX], {1}),
        ([*[USED] * RETIRED_MAX, IDLE], {0}),
        ([Usage(0, RETIRED_BYTES_MAX + 1)], set()),
        ([Usage(1, RETIRED_BYTES_MAX), Usage(0, 1), Usage(1, 1)], {0, 1}),
        ([Usage(1, 1), Usage(0, RETIRED_BYTES_MAX), Usage(1, 1)], {1}),
    ],
    ids=["none", "as many as allowed", "oldest", "unused", "the newest is new", "one", "bytes", "unused bytes"],
)
def test_above_the_bounds_unused_brokers_close_first_and_the_newest_stays(usages, closed):
    assert surplus(usages) == closed


@attrs.define
class FakeBroker:
    is_ended: bool = False
    is_closed: bool = False
    has_rules: bool = True

    @property
    def faults(self):
        return self

    def clear(self):
        self.has_rules = False

    def usage(self):
        if self.is_ended:
            raise EmbeddedBrokerError("the broker is closed")
        return IDLE

    def close(self):
        self.is_closed = self.is_ended = True


def test_brokers_above_the_bound_are_closed_and_their_fault_rules_are_removed(monkeypatch):
    monkeypatch.setattr(retired, "RETIRED_MAX", 2)
    brokers = [FakeBroker() for _ in range(4)]
    kept = RetiredBrokers()
    for broker in brokers:
        kept.add(broker)
    assert [broker.is_closed for broker in brokers] == [True, True, False, False]
    assert not any(broker.has_rules for broker in brokers)


def test_a_broker_that_has_ended_is_closed_and_forgotten():
    kept, ended, running = RetiredBrokers(), FakeBroker(is_ended=True), FakeBroker()
    kept.add(ended)
    kept.add(running)
    assert (ended.is_closed, running.is_closed) == (True, False)


def test_the_usage_of_a_broker_is_its_connections_and_the_size_of_its_files():
    with EmbeddedBroker() as broker:
        before = broker.usage()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce("t", bytes(10_000))
        assert producer.flush(30) == 0
        after = broker.usage()
    assert before.connections == 0
    assert after.connections > 0
    assert after.size_bytes >= before.size_bytes + 10_000
