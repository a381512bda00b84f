"""Rules of a broker process from a file and the command line, with real sockets and files, in both modes."""

import json
import threading
import time

import pytest
from click.testing import CliRunner

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.cli import main
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from tests.crashes.wire_client import LENGTH, WireClient, describe_topics
from tests.forks import run_command

pytestmark = [pytest.mark.faults]
each_mode = pytest.mark.parametrize("mode", ["classic", "pipelined"])
VERSION = 9
SECONDS_MAX = 20.0
SILENT_SECONDS = 0.3
RULES = """
[[rule]]
api = "Produce"
topic = "t"
nth = 2
error = "NOT_LEADER_OR_FOLLOWER"
"""


def produce(value, topic="t"):
    data = ProduceRequest.PartitionProduceData(0, build_batch([NewRecord(value, None, 1)]))
    return ProduceRequest(acks=-1, topic_data=[ProduceRequest.TopicProduceData(topic, partition_data=[data])])


def code_of(answer):
    return answer.responses[0].partition_responses[0].error_code


def client_of(broker):
    client = WireClient((broker.host, broker.port))
    describe_topics(client, ["t"], create=True)
    return client


def faults(broker, *arguments):
    """Run a command that must succeed, and return its output."""
    result = CliRunner().invoke(main, ["faults", *arguments, "--data", str(broker.data)])
    assert result.exit_code == 0, result.output
    return result.output


def expect_silence(client, broker):
    """Expect that the response to a held request does not arrive for a while."""
    deadline = time.monotonic() + SECONDS_MAX
    while "1 held" not in faults(broker, "list"):
        assert time.monotonic() < deadline, "the rule holds nothing"
    client._socket.settimeout(SILENT_SECONDS)
    with pytest.raises(TimeoutError):
        client.receive()
    client._socket.settimeout(SECONDS_MAX)


def values(client):
    """Return the number of batches of one record in the log of `t`."""
    wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    request = FetchRequest(max_wait_ms=0, topics=[FetchRequest.FetchTopic("t", partitions=[wanted])])
    (partition,) = client.ask(request, 11).responses[0].partitions
    return partition.high_watermark


@each_mode
def test_a_broker_starts_with_the_rules_of_a_file_and_logs_them(broker_process, tmp_path, mode):
    path = tmp_path / "faults.toml"
    path.write_text(RULES, encoding="utf-8")
    broker = broker_process(mode=mode, arguments=["--faults", str(path)])
    with client_of(broker) as client:
        codes = [code_of(client.ask(produce(b"%d" % number), VERSION)) for number in range(3)]
    assert codes == [0, ErrorCode.NOT_LEADER_OR_FOLLOWER, 0]
    assert "fault rule 1 is active: Produce topic=t nth=2: error NOT_LEADER_OR_FOLLOWER" in broker.stderr
    assert faults(broker, "list") == "1  Produce topic=t nth=2: error NOT_LEADER_OR_FOLLOWER  (1 of 3 struck)\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('[[rule]]\napi = "Produce"\nerror = "NOT_A_THING"\n', "faults.toml:3: unknown error 'NOT_A_THING'"),
        (None, "faults.toml: No such file or directory"),
    ],
)
def test_an_invalid_file_is_one_line_and_stops_the_start(tmp_path, text, line):
    path = tmp_path / "faults.toml"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    ended = run_command("serve", "--port", "0", "--data", str(tmp_path / "data"), "--faults", str(path))
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.count("\n") == 1
    assert line in ended.stderr
    assert not (tmp_path / "data").exists()


@each_mode
def test_rules_are_added_and_removed_while_the_broker_runs(broker_process, mode):
    broker = broker_process(mode=mode)
    assert faults(broker, "list") == "no fault rules\n"
    with client_of(broker) as client:
        client.ask(produce(b"a"), VERSION)
        added = faults(broker, "add", "api=Produce", "times=1", "error=NOT_ENOUGH_REPLICAS", "when=after")
        assert added == "1  Produce times=1: error NOT_ENOUGH_REPLICAS after handling  (0 of 0 struck)\n"
        assert code_of(client.ask(produce(b"b"), VERSION)) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert code_of(client.ask(produce(b"c"), VERSION)) == 0
        assert values(client) == 3
        drawn = json.loads(faults(broker, "add", "api=ListGroups", "p=0.5", "drop", "--json"))
        assert (drawn["number"], drawn["deterministic"]) == (2, False)
        assert faults(broker, "remove", "2") == "done\n"
        assert faults(broker, "clear") == "1 removed\n"
        assert client.ask(ListGroupsRequest()).error_code == 0


@each_mode
def test_effects_on_a_real_socket(broker_process, mode):
    """A partial response, no response, a closed connection after the append, and a released pause."""
    broker = broker_process(mode=mode)
    for rule in (["nth=1", "partial_write=5"], ["nth=2", "disconnect=after"], ["nth=3", "pause=queue"]):
        faults(broker, "add", "api=Produce", *rule)
    with client_of(broker) as client:
        client.send(produce(b"a"), VERSION)
        with pytest.raises(ConnectionResetError):
            client.receive()
        assert len(client._received) == 5 - LENGTH.size
    with client_of(broker) as client:
        client.send(produce(b"b"), VERSION)
        with pytest.raises(ConnectionResetError):
            client.receive()
        assert client._received == b""
    with client_of(broker) as client:
        client.send(produce(b"c"), VERSION)
        expect_silence(client, broker)
        assert faults(broker, "release", "3") == "released\n"
        assert code_of(client.receive()) == 0
        assert values(client) == 3


@each_mode
def test_a_paused_commit_acknowledges_nothing_until_it_is_released(broker_process, mode):
    broker = broker_process(mode=mode)
    with client_of(broker) as client, client_of(broker) as other:
        faults(broker, "add", "api=Produce", "times=1", "pause=commit")
        client.send(produce(b"a"), VERSION)
        expect_silence(client, broker)
        assert values(other) == 0
        assert faults(broker, "release", "1") == "released\n"
        assert code_of(client.receive()) == 0
        assert values(other) == 1


def test_a_slow_sync_delays_acknowledgements(broker_process):
    broker = broker_process()
    with client_of(broker) as client:
        faults(broker, "add", "disk=sync", "delay=300ms")
        began = time.monotonic()
        assert code_of(client.ask(produce(b"a"), VERSION)) == 0
        assert time.monotonic() - began >= 0.3


@each_mode
def test_a_failed_sync_ends_the_broker_and_acknowledges_nothing(broker_process, tmp_path, mode):
    broker = broker_process(mode=mode)
    with client_of(broker) as client:
        assert code_of(client.ask(produce(b"a"), VERSION)) == 0
        faults(broker, "add", "disk=sync", "error=EIO")
        client.send(produce(b"b"), VERSION)
        with pytest.raises(ConnectionResetError):
            client.receive()
    assert broker.process.wait(SECONDS_MAX) == 1
    assert "Input/output error" in broker.stderr
    broker.process.returncode = 0  # it ended as it must


@each_mode
def test_a_crash_before_a_sync_loses_only_unacknowledged_records(broker_process, mode):
    broker = broker_process(mode=mode)
    with client_of(broker) as client:
        assert code_of(client.ask(produce(b"kept"), VERSION)) == 0
        faults(broker, "add", "disk=sync", "nth=2", "crash")
        assert code_of(client.ask(produce(b"kept, too"), VERSION)) == 0
        client.send(produce(b"lost"), VERSION)
        with pytest.raises(ConnectionResetError):
            client.receive()
    assert broker.process.wait(SECONDS_MAX) == -9
    broker.process.returncode = 0  # the rule ended it
    again = broker_process(mode=mode)
    with client_of(again) as client:
        assert values(client) == 2


def test_a_stopping_broker_does_not_wait_for_held_requests(broker_process):
    broker = broker_process()
    faults(broker, "add", "api=Produce", "pause=response_order")
    with client_of(broker) as client:
        faults(broker, "add", "disk=write", "pause")
        client.send(produce(b"a"), VERSION)
        stopped = threading.Thread(target=broker.stop)
        stopped.start()
        stopped.join(SECONDS_MAX)
        assert not stopped.is_alive()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["add", "api=Prduce", "drop"], "Error: unknown API 'Prduce'; did you mean Produce?"),
        (["add", "api=Produce", "corrupt_crc"], "Error: corrupt_crc applies to Fetch and ShareFetch, not Produce"),
        (["remove", "7"], "Error: fault rule 7 does not exist; existing rules: none"),
        (["remove", "first"], "Error: give the number of one rule; `faults list` shows the numbers"),
        (["list", "all"], "Error: unexpected argument 'all'. Leave it out"),
        (["expire", "nobody"], "Error: the group 'nobody' does not exist"),
        (["expire"], "Error: give a group, or a group and one of its members"),
        (["rebalance", "nobody"], "Error: the group 'nobody' does not exist or has no members"),
        (["rebalance"], "Error: 0 groups are given. Give one group"),
    ],
)
def test_an_invalid_command_is_one_line(shared_broker, arguments, line):
    result = CliRunner().invoke(main, ["faults", *arguments, "--data", str(shared_broker.data)])
    assert (result.exit_code, result.output) == (2, line + "\n")


def test_a_stopped_broker_is_one_line(tmp_path):
    result = CliRunner().invoke(main, ["faults", "list", "--data", str(tmp_path)])
    assert result.output == f"Error: no broker runs on {tmp_path}: name its directory with --data\n"


@pytest.fixture(scope="module")
def shared_broker(tmp_path_factory):
    from tests.conftest import start_broker

    broker = start_broker(tmp_path_factory.mktemp("faults"))
    yield broker
    broker.stop()
    broker.process.stdout.close()
