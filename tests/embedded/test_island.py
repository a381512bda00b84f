"""An island of an embedded broker undoes its effects at its end."""

import socket

import pytest
from confluent_kafka import Consumer

from pipeline_broker import EmbeddedBroker
from pipeline_broker.embedded.errors import EmbeddedBrokerError

DAY = 86_400
SECONDS_MAX = 30


@pytest.fixture(params=["classic", "pipelined"])
def broker(request):
    with EmbeddedBroker(mode=request.param) as broker:
        yield broker


def values(broker, topic="t"):
    return [record.value for record in broker.records(topic)]


def consumer_of(broker, group):
    config = {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "log_level": 0}
    consumer = Consumer({**config, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["t"])
    return consumer


def read_and_commit(broker, group):
    """Return a consumer that has joined its group and committed."""
    consumer = consumer_of(broker, group)
    consumer.commit(consumer.poll(SECONDS_MAX), asynchronous=False)
    return consumer


def group_ids(broker):
    return [group.group_id for group in broker.groups()]


@pytest.mark.parametrize("change", ["advance", "reset", "restore"])
def test_the_state_before_the_first_change_of_time_or_data_is_restored(broker, change):
    nothing = broker.snapshot()
    changes = {"advance": lambda: broker.advance(8 * DAY), "reset": broker.reset}
    before = broker.produce("t", "fresh").timestamp
    with broker.island():
        broker.produce("t", "of the island")
        changes.get(change, lambda: broker.restore(nothing))()
        assert broker.topics().get("t", 0) == 0 or values(broker) == []
        broker.advance(DAY)
    assert values(broker) == [b"fresh", b"of the island"]
    broker.advance(1)
    assert broker.produce("t", "later").timestamp - before < DAY * 1000


def test_connections_stay_open_if_nothing_is_restored(broker):
    broker.create_topic("t")
    consumer = consumer_of(broker, "g")
    used = []
    for value in (b"one", b"two"):
        with broker.island():
            broker.produce("t", value)
            assert consumer.poll(SECONDS_MAX).value() == value
            used.append({request.connection for request in broker.requests("Fetch")})
    assert used[0] == used[1] != set()
    consumer.close()


def test_requests_start_with_the_island(broker):
    broker.produce("t", "one")
    read_and_commit(broker, "g").close()
    assert broker.requests()
    with broker.island():
        assert broker.requests() == []


def test_rules_of_the_island_end_with_it_and_others_stay(broker):
    before = broker.faults.when("Produce", topic="before").drop()
    with broker.island() as island:
        made = broker.faults.when("Produce", topic="inside").drop()
        assert island.rules == [made]
    assert broker.faults.rules == [before]


def test_ending_an_island_after_a_reset_removes_no_other_rules(broker):
    with broker.island():
        broker.faults.when("Produce", topic="inside").drop()
        broker.reset()
        broker.faults.remove(broker.faults.when("Produce", topic="again").drop().number)
    assert broker.faults.rules == []


def test_rules_without_effect_include_no_rejected_rules(broker):
    with broker.island() as island:
        broker.faults.when("Produce", topic="t", nth=2)
        with pytest.raises(Exception, match="a crash ends the process"):
            broker.faults.disk_when("sync").crash()
        broker.faults.when("Fetch").drop()
        assert [str(begun) for begun in island.rules_without_effect] == ["Produce topic=t nth=2"]


def test_rules_never_struck_exclude_random_ones(broker):
    broker.produce("t", "one")
    with broker.island() as island:
        unused = broker.faults.when("Fetch", topic="typo").delay(0.001)
        used = broker.faults.when("Fetch").delay(0.001)
        unlucky = broker.faults.when("Fetch", p=1e-12, seed=1).delay(0.001)
        read_and_commit(broker, "g").close()
    assert used.hits
    assert unlucky.matched
    assert island.rules_never_struck == [unused]


def test_groups_of_the_island_are_deleted_and_earlier_ones_stay(broker):
    broker.produce("t", "one")
    read_and_commit(broker, "before").close()
    with broker.island():
        read_and_commit(broker, "inside").close()
        assert group_ids(broker) == ["before", "inside"]
    assert group_ids(broker) == ["before"]
    assert broker.offsets("before") == {("t", 0): 1}


def test_a_group_with_members_stays(broker):
    broker.produce("t", "one")
    with broker.island():
        consumer = read_and_commit(broker, "service")
    assert broker.offsets("service") == {("t", 0): 1}
    consumer.close()


def test_restored_members_that_have_left_are_removed(broker):
    """Otherwise the next member of a group with this name would wait for its session timeout."""
    broker.produce("t", "one")
    with broker.island():
        consumer = read_and_commit(broker, "g")
        broker.advance(1)
        consumer.close()
    assert group_ids(broker) == []
    consumer = consumer_of(broker, "g")
    assert consumer.poll(SECONDS_MAX).offset() == 0
    consumer.close()


def test_islands_cannot_overlap_and_need_memory(broker, tmp_path):
    with broker.island(), pytest.raises(EmbeddedBrokerError, match="another island is open"), broker.island():
        pass
    refused = pytest.raises(EmbeddedBrokerError, match="start one without")
    with EmbeddedBroker(data=tmp_path / "data") as kept, refused, kept.island():
        pass


def test_a_refused_island_does_not_affect_the_open_one(broker):
    with broker.island() as island:
        with pytest.raises(EmbeddedBrokerError, match="another island is open"), broker.island():
            pass
        rule = broker.faults.when("Produce").error("NOT_LEADER_OR_FOLLOWER")
        assert island.rules == [rule]
    assert broker.faults.rules == []


def fail(broker):
    broker.faults.disk_when("write").error()
    with pytest.raises(EmbeddedBrokerError, match="the broker failed"):
        broker.produce("t", "lost")


@pytest.mark.parametrize("end", [fail, EmbeddedBroker.close], ids=["failed", "closed"])
def test_a_broker_that_ended_in_an_island_restarts_at_its_address(broker, end):
    address = broker.bootstrap_servers
    broker.produce("t", "one")
    read_and_commit(broker, "before").close()
    for time_goes_on in (False, True):
        with broker.island():
            broker.produce("t", "two")
            consumer = read_and_commit(broker, "inside")
            if time_goes_on:
                broker.advance(8 * DAY)
            end(broker)
            consumer.close()
        assert values(broker)[:2] == [b"one", b"two"]
        assert group_ids(broker) == ["before"]
        assert broker.faults.rules == []
        assert broker.clock_ahead_seconds == 0
        assert broker.bootstrap_servers == address
    with broker.island():
        read_and_commit(broker, "inside").close()
        broker.reset()
        assert broker.topics() == {}
    assert broker.offsets("before") == {("t", 0): 1}


def test_a_restarted_broker_gets_another_port_if_its_own_is_taken(broker):
    host, port = broker.bootstrap_servers.split(":")
    with socket.socket() as other:
        with broker.island():
            broker.close()
            other.bind((host, int(port)))
            other.listen()
        assert broker.bootstrap_servers != f"{host}:{port}"
        broker.produce("t", "one")


def test_an_error_in_the_island_is_raised_although_the_broker_was_closed(broker):
    def close_and_fail():
        broker.close()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), broker.island():
        close_and_fail()
    broker.produce("t", "one")


def test_an_island_restarts_a_failed_broker_but_not_a_closed_one(broker):
    broker.produce("t", "one")
    fail(broker)
    with broker.island():
        assert values(broker)[:1] == [b"one"]
    broker.close()
    with pytest.raises(EmbeddedBrokerError, match="the broker is closed"), broker.island():
        pass
