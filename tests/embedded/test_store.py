"""Embedded brokers that keep their data in an object store, one after the other."""

import confluent_kafka as ck
import pytest

from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError
from pipeline_broker.faults.names import FaultError
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import Listed, list_all

WAIT_SECONDS = 20


def values(broker):
    return [record.value for record in broker.records("t")]


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
@pytest.mark.parametrize("kind", ["object", "address"])
def test_a_later_broker_finds_the_data_of_an_earlier_one(mode, kind, tmp_path):
    store = MemoryStore() if kind == "object" else f"file://{tmp_path}/store"
    for number in range(3):
        with EmbeddedBroker(mode=mode, store=store) as broker:
            assert number == 0 or values(broker) == [b"%d" % each for each in range(number)]
            broker.produce("t", str(number))
            producer = ck.Producer({"bootstrap.servers": broker.bootstrap_servers})
            producer.produce(f"client-{number}", "x")
            assert producer.flush(WAIT_SECONDS) == 0
            assert len(broker.topics()) == number + 2


def test_a_second_broker_takes_over_and_the_first_one_fails():
    store = MemoryStore()
    with EmbeddedBroker(store=store) as first:
        first.produce("t", "0")
        with EmbeddedBroker(store=store) as second:
            assert values(second) == [b"0"]
            with pytest.raises(EmbeddedBrokerError, match="another broker took over as generation 2"):
                first.produce("t", "late")
            second.produce("t", "1")
            assert values(second) == [b"0", b"1"]


def test_brokers_with_other_ids_share_a_store_without_sharing_records():
    store = MemoryStore()
    with (
        EmbeddedBroker(store=store) as first,
        EmbeddedBroker(store=store, settings={"node.id": 2}) as second,
    ):
        first.produce("t", "first")
        second.produce("t", "second")
        assert (values(first), values(second)) == ([b"first"], [b"second"])
    assert {name.split("/")[1] for name, _ in list_all(store, "wal/")} == {"1", "2"}


def test_a_memory_url_is_private_to_the_broker():
    for number in range(2):
        with EmbeddedBroker(store="memory://") as broker:
            broker.produce("t", str(number))
            assert values(broker) == [b"%d" % number]


def test_invalid_stores_are_one_line(tmp_path):
    class Unlisted(MemoryStore):
        def list(self, prefix, after=""):
            return [Listed("check/none", 1)] if not after else []

    with pytest.raises(EmbeddedBrokerError, match="give only one"):
        EmbeddedBroker(store="memory://", data=tmp_path)
    with pytest.raises(EmbeddedBrokerError, match="Use s3://BUCKET"):
        EmbeddedBroker(store="ftp://x").start()
    with pytest.raises(EmbeddedBrokerError, match="the store Unlisted cannot be used: it lists"):
        EmbeddedBroker(store=Unlisted()).start()
    with EmbeddedBroker(store="memory://") as broker:
        for ask in (broker.snapshot, broker.reset, broker.island().__enter__):
            with pytest.raises(EmbeddedBrokerError, match=r"a broker with a store cannot do this; start one without"):
                ask()


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_store_faults_lose_and_duplicate_no_record(mode):
    store = MemoryStore()
    with EmbeddedBroker(mode=mode, store=store) as broker:
        lost = broker.faults.when_store("put", name="wal/1/0*", every=3).unsure()
        before = broker.faults.when_store("create", every=5).unsure("before")
        conflict = broker.faults.when_store("create", every=7).error("conflict")
        outage = broker.faults.when_store("create", nth=20).outage(0.3)
        for number in range(30):
            broker.produce("t", str(number))
        assert all(rule.hits for rule in (lost, before, conflict, outage))
        broker.faults.clear()
        assert values(broker) == [b"%d" % number for number in range(30)]
    with EmbeddedBroker(mode=mode, store=store) as broker:
        assert values(broker) == [b"%d" % number for number in range(30)]


def test_rules_about_a_store_need_one():
    with EmbeddedBroker() as broker, pytest.raises(FaultError, match="a store rule needs an object store"):
        broker.faults.when_store("put").unsure()
