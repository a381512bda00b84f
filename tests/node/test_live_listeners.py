"""Listeners, processors and queues change at run time, and stay the same after a restart."""

import contextlib
import socket
import time

import pytest

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.produce import ProduceRequest, ProduceResponse
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest, CreateTopicsResponse
from tests.apis.wire_client import WireClient
from tests.free_ports import free_port
from tests.node.listener_clients import advertised_to, alter, alter_names, configs_of

MODES = ["classic", "pipelined"]
MAP = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,MORE:PLAINTEXT,SAFE:SSL"
SECONDS_MAX = 20
REQUESTS = 400
PRODUCE_VERSION = 11


def is_listening(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
        return True
    return False


def wait_until(condition):
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline


@pytest.mark.parametrize("mode", MODES)
def test_a_listener_is_added_and_removed_while_the_broker_runs(broker_process, mode):
    broker = broker_process(mode=mode, settings=[MAP])
    more = free_port()
    first = f"PLAINTEXT://127.0.0.1:{broker.port}"
    with WireClient(broker.host, broker.port) as client:
        assert alter(client, listeners=f"{first},MORE://127.0.0.1:{more}") is None
        wait_until(lambda: is_listening(more))
        assert advertised_to("127.0.0.1", more) == [("127.0.0.1", more)]
        entry = configs_of(client, "listeners")["listeners"]
        assert (entry.value, entry.config_source, entry.read_only) == (f"{first},MORE://127.0.0.1:{more}", 2, False)
        with WireClient("127.0.0.1", more) as other:
            assert alter(other, listeners=None) is None
            assert other.socket.recv(1) == b"", "the connections of a listener that goes are closed"
        wait_until(lambda: not is_listening(more))
        assert advertised_to(broker.host, broker.port) == [(broker.host, broker.port)]


def test_listeners_set_by_clients_survive_a_restart_and_an_unavailable_one_is_logged(broker_process):
    broker = broker_process(settings=[MAP])
    more = free_port()
    with WireClient(broker.host, broker.port) as client:
        alter(client, listeners=f"PLAINTEXT://127.0.0.1:{broker.port},MORE://127.0.0.1:{more}")
        wait_until(lambda: is_listening(more))
    broker.stop()
    again = broker_process(settings=[MAP], data=broker.data)
    assert again.port != broker.port, "a listener of the start keeps the address of the start"
    assert advertised_to("127.0.0.1", more) == [("127.0.0.1", more)]
    again.stop()
    with socket.create_server(("127.0.0.1", more)):
        third = broker_process(settings=[MAP], data=broker.data)
        assert advertised_to(third.host, third.port) == [(third.host, third.port)]
    assert f"listener MORE is not served: cannot listen on 127.0.0.1:{more}" in third.stderr


def test_impossible_changes_of_a_listener_are_refused_and_change_nothing(broker_process, tmp_path):
    broker = broker_process(settings=[MAP])
    first = f"PLAINTEXT://127.0.0.1:{broker.port}"
    with WireClient(broker.host, broker.port) as client:
        refused = alter(client, listeners=f"{first},OTHER://127.0.0.1:0")
        assert refused.endswith("No security protocol defined for listener OTHER")
        refused = alter(client, listeners=f"{first},SAFE://127.0.0.1:0")
        assert "set ssl.keystore.type=PEM" in refused
        refused = alter_names(client, {"advertised.listeners": first})
        assert refused == "Cannot update these configs dynamically: [advertised.listeners]"
        refused = alter_names(client, {"listener.name.plaintext.num.network.threads": "7"})
        assert "value should not be greater than double the current value 3" in refused
        assert alter(client, validate_only=True, listeners=f"{first},MORE://127.0.0.1:0") is None
        assert configs_of(client, "listeners")["listeners"].value == first


def test_secrets_of_a_listener_are_never_shown_and_its_synonyms_are(broker_process):
    jaas = "listener.name.plaintext.plain.sasl.jaas.config"
    limit = "listener.name.plaintext.max.connections"
    broker = broker_process(settings=[f"{jaas}=secret", f"{limit}=50"])
    with WireClient(broker.host, broker.port) as client:
        alter_names(client, {limit: "60"})
        shown = configs_of(client, jaas, limit)
    assert (shown[jaas].value, shown[jaas].is_sensitive, [each.value for each in shown[jaas].synonyms]) == (
        None,
        True,
        [None],
    )
    assert [(each.name, each.value, each.source) for each in shown[limit].synonyms] == [
        (limit, "60", 2),
        (limit, "50", 4),
        ("max.connections", "2147483647", 5),
    ]


def test_a_limit_of_one_listener_affects_no_other(broker_process):
    broker = broker_process(settings=["listeners=PLAINTEXT://127.0.0.1:0,MORE://127.0.0.1:0", MAP])
    with WireClient(broker.host, broker.port) as client:
        more = int(configs_of(client, "listeners")["listeners"].value.rpartition(":")[2])
        assert alter_names(client, {"listener.name.more.max.connections": "1"}) is None
        with WireClient("127.0.0.1", more):
            waiting = WireClient("127.0.0.1", more)
            waiting.socket.settimeout(0.3)
            with waiting, pytest.raises(TimeoutError):
                configs_of(waiting, "listeners")
            assert advertised_to(broker.host, broker.port)


def produce(client, number):
    batch = build_batch([NewRecord(b"%d" % number, None, 0)])
    partition = ProduceRequest.PartitionProduceData(0, memoryview(batch))
    topic = ProduceRequest.TopicProduceData(name="t", partition_data=[partition])
    client.send(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[topic]), PRODUCE_VERSION)


@pytest.mark.parametrize(("mode", "name"), [("classic", "num.io.threads"), ("pipelined", "pipeline.queues")])
def test_handlers_and_queues_are_resized_under_load_and_nothing_is_reordered(broker_process, mode, name):
    broker = broker_process(mode=mode, settings=["pipeline.queues=8"] if mode == "pipelined" else [])
    with WireClient(broker.host, broker.port) as client, WireClient(broker.host, broker.port) as admin:
        topic = CreateTopicsRequest.CreatableTopic("t", 1, 1)
        client.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse, 7)
        sizes = iter(["4", "8", "16", "8"] * (REQUESTS // 20))
        offsets = []
        for number in range(REQUESTS):
            produce(client, number)
            if number % 20 == 10:
                assert alter_names(admin, {name: next(sizes)}) is None
            if number >= 100:
                offsets.append(client.expect(ProduceResponse, PRODUCE_VERSION))
        offsets += [client.expect(ProduceResponse, PRODUCE_VERSION) for _ in range(100)]
        partitions = [answer.responses[0].partition_responses[0] for answer in offsets]
    assert [(partition.error_code, partition.base_offset) for partition in partitions] == [
        (0, number) for number in range(REQUESTS)
    ]
