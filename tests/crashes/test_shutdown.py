"""A broker that is asked to end under load answers what it accepted or closes, loses nothing, and exits with 0."""

import contextlib
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from click.testing import CliRunner

from pipeline_broker.cli import main
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from stages.server_limits import DRAIN_SECONDS
from tests.conftest import ROOT
from tests.crashes.broker_under_test import VARIANTS
from tests.crashes.producers import draw_records, produce_request
from tests.crashes.scene import PARTITIONS, Scene
from tests.crashes.wire_client import WireClient, describe_topics, fetch_request

pytestmark = [pytest.mark.faults]
MODES = pytest.mark.parametrize("mode", ["classic", "pipelined"])
ACKNOWLEDGED_FIRST = 100
END_SECONDS_MAX = 10.0
HALF_FRAMES = 50
HELD_EACH = 10
WIDE_PARTITIONS = 2000
LATEST = -1


def load_until_busy(scene):
    load = scene.load()
    while scene.history.acknowledged_count < ACKNOWLEDGED_FIRST:
        time.sleep(0.01)
    return load


@pytest.mark.parametrize(
    ("mode", "signals"),
    [
        ("classic", ("SIGTERM",)),
        ("pipelined", ("SIGTERM",)),
        ("pipelined", ("SIGINT",)),
        ("classic", ("SIGINT", "SIGTERM")),
    ],
)
def test_a_signal_under_load_ends_it_in_order(tmp_path, mode, signals):
    """Case 37."""
    with Scene(1, tmp_path, mode=mode) as scene:
        scene.start()
        scene.prepare()
        load = load_until_busy(scene)
        began = time.monotonic()
        assert scene.broker.stop(*(signal.Signals[name] for name in signals)) == 0, scene.broker.stderr
        assert time.monotonic() - began < END_SECONDS_MAX
        load.join()
        assert scene.broker.stderr == ""
        scene.start()
        scene.verify()
        scene.resolve()
        scene.verify()
        assert scene.broker.stop() == 0


@MODES
def test_what_was_accepted_is_answered_before_the_end(tmp_path, mode):
    """A client sends requests and then nothing more: what was read of them is answered, however slow commits are."""
    with Scene(2, tmp_path, mode=mode, arguments=("--commit-delay", "50ms")) as scene:
        scene.start()
        scene.prepare()
        partition = PARTITIONS[0]
        stream = scene.history.stream("steady", partition)
        with WireClient(scene.broker.address) as client:
            topic_ids = scene.clients[0].topic_ids
            for _ in range(5):
                _, records = draw_records(scene.random, stream)
                client.send(produce_request(topic_ids, {partition: build_batch(records)}))
            client.receive()
            scene.broker.process.send_signal(signal.SIGTERM)
            answered = 1
            try:
                while client.in_flight:
                    client.receive()
                    answered += 1
            except ConnectionError:
                pass
            assert answered == 5 if mode == "pipelined" else answered >= 2
        assert scene.broker.wait() == 0


@MODES
def test_a_parked_fetch_does_not_delay_the_end(tmp_path, mode):
    with Scene(3, tmp_path, mode=mode) as scene:
        scene.start()
        scene.prepare()
        topic_id = scene.clients[0].topic_ids[PARTITIONS[0][0]]
        with WireClient(scene.broker.address) as client:
            client.send(fetch_request(topic_id, 0, 0, wait_ms=60_000))
            began = time.monotonic()
            assert scene.broker.stop() == 0
            assert time.monotonic() - began < DRAIN_SECONDS
            assert client.receive().error_code == 0


def test_signals_until_the_end_change_nothing(tmp_path):
    """However impatient: not while it drains, not while it closes its files, not while the process ends. Case 37."""
    with Scene(5, tmp_path) as scene:
        scene.start()
        scene.prepare()
        load = load_until_busy(scene)
        process = scene.broker.process
        while process.poll() is None:
            process.send_signal(signal.SIGTERM)
            time.sleep(0.0005)
        assert scene.broker.wait() == 0
        load.join()
        scene.start()
        scene.verify()


def hold_up(stack, broker, address):
    """Clients of every kind that could keep a broker from ending; returns when the broker has met all of them."""
    with WireClient(address) as client:
        describe_topics(client, ["large", "held"], create=True)
        topic_ids = {name: topic.topic_id for name, topic in describe_topics(client, ["large", "held"]).items()}
        batch = build_batch([NewRecord(bytes(900_000))])
        for _ in range(4):
            client.ask(produce_request(topic_ids, {("large", 0): batch}))

    for rule in (["api=Metadata", "client_id=faults", "pause=response_order"], ["disk=sync", "delay=50s"]):
        result = CliRunner().invoke(main, ["faults", "add", *rule, "--data", str(broker.data)])
        assert result.exit_code == 0, result.output
    for _ in range(HALF_FRAMES):
        connection = stack.enter_context(socket.create_connection(address))
        connection.sendall(struct.pack(">i", 10_000_000) + bytes(100_000))
    for _ in range(HELD_EACH):
        parked, deaf, held, slow = (stack.enter_context(WireClient(address)) for _ in range(4))
        parked.send(fetch_request(topic_ids["held"], 0, 0, wait_ms=60_000))
        for _ in range(30):
            deaf.send(fetch_request(topic_ids["large"], 0, 0))
        held.send(MetadataRequest(topics=None))
        slow.send(produce_request(topic_ids, {("held", 0): build_batch([NewRecord(b"waits for the disk")])}))
    time.sleep(1)


@MODES
def test_a_signal_ends_it_in_time_whatever_clients_and_rules_hold(broker_process, mode):
    """Half frames, clients that do not read, parked fetches, answers and a disk that rules hold, all at once."""
    broker = broker_process(mode=mode)
    with contextlib.ExitStack() as stack:
        hold_up(stack, broker, (broker.host, broker.port))
        began = time.monotonic()
        broker.process.send_signal(signal.SIGTERM)
        code = broker.process.wait(END_SECONDS_MAX)
        assert time.monotonic() - began < END_SECONDS_MAX
    assert code == 0, broker.stderr
    lines = [line for line in broker.stderr.splitlines() if "fault rule" not in line]
    assert lines == []


@MODES
def test_a_signal_ends_it_in_time_amid_the_archiving_of_thousands_of_partitions(broker_process, mode):
    """Each of them is a sync or more: a round takes longer than an end may. What it left is in the journal."""
    broker = broker_process(mode=mode, program=(str(VARIANTS), "slow-archive"))
    batch = build_batch([NewRecord(bytes(500), timestamp=1_000)])
    with WireClient((broker.host, broker.port)) as client:
        topic = CreateTopicsRequest.CreatableTopic("wide", WIDE_PARTITIONS, 1)
        (created,) = client.ask(CreateTopicsRequest([topic], timeout_ms=10_000)).topics
        topic_ids = {"wide": created.topic_id}
        answer = client.ask(produce_request(topic_ids, {("wide", number): batch for number in range(WIDE_PARTITIONS)}))
        assert {each.error_code for each in answer.responses[0].partition_responses} == {0}
    deadline = time.monotonic() + END_SECONDS_MAX
    while not list((broker.data / "archive").glob("wide-*")):
        assert time.monotonic() < deadline, "no archiving began"
        time.sleep(0.01)
    began = time.monotonic()
    broker.process.send_signal(signal.SIGTERM)
    assert broker.process.wait(END_SECONDS_MAX) == 0, broker.stderr
    assert time.monotonic() - began < END_SECONDS_MAX
    assert not broker.stderr
    assert len(list((broker.data / "archive").glob("wide-*/*.log"))) > 0
    again = broker_process(mode=mode)
    with WireClient((again.host, again.port)) as client:
        wanted = [ListOffsetsRequest.ListOffsetsPartition(number, -1, LATEST) for number in range(WIDE_PARTITIONS)]
        request = ListOffsetsRequest(-1, topics=[ListOffsetsRequest.ListOffsetsTopic("wide", wanted)])
        assert {each.offset for each in client.ask(request).topics[0].partitions} == {1}
        for number in range(0, WIDE_PARTITIONS, 97):
            fetched = client.ask(fetch_request(topic_ids["wide"], number, 0))
            assert len(fetched.responses[0].partitions[0].records) == len(batch)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_during_the_start_ends_it_at_once(tmp_path, number):
    """Case 37."""
    with Scene(6, tmp_path) as scene:
        scene.broker.launch("pipelined", "always")
        time.sleep(scene.random.uniform(0, 0.3))
        assert scene.broker.stop(number) in {-number, 0}
        scene.start()
        assert scene.broker.stop() == 0


INTERRUPTED_CALLBACK = """
import signal, weakref
from pipeline_broker.commands.serve import EndSignals

class Module: pass

signals, module = EndSignals(), Module()
callback = weakref.ref(module, lambda _: signal.raise_signal(signal.SIGINT))
del module
print("went on")
"""


def test_a_signal_that_meets_a_callback_of_the_interpreter_ends_a_start_all_the_same():
    """An exception raised in one is printed and forgotten; the import system has such callbacks."""
    found = subprocess.run([sys.executable, "-c", INTERRUPTED_CALLBACK], cwd=ROOT, capture_output=True, check=False)
    assert (found.returncode, found.stdout) == (-signal.SIGINT, b"")


@pytest.mark.parametrize("mode", ["pipelined"])
def test_a_client_that_does_not_read_does_not_keep_it_from_ending(tmp_path, mode):
    with Scene(4, tmp_path, mode=mode) as scene:
        scene.start()
        scene.prepare()
        load = load_until_busy(scene)
        topic_id = scene.clients[0].topic_ids[PARTITIONS[0][0]]
        with WireClient(scene.broker.address) as client:
            sender = threading.Thread(target=flood, args=(client, fetch_request(topic_id, 0, 0)))
            sender.start()
            time.sleep(0.3)
            began = time.monotonic()
            assert scene.broker.stop() == 0, scene.broker.stderr
            assert time.monotonic() - began < END_SECONDS_MAX
            sender.join()
        load.join()
        assert scene.broker.stderr == ""


def flood(client, request):
    """Send until the connection breaks, and read nothing."""
    try:
        while True:
            client.send(request)
    except OSError:
        pass
