"""A broker process whose internal topics hold what it cannot read: it starts, says so once, and serves."""

import json

import pytest

from pipeline_broker.apis.data.produce import ADMIN_CLIENT_ID
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.node.data_directory import open_broker
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.state.internal_topics import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from tests.crashes import wire_client
from tests.crashes.wire_client import WireClient
from tests.forks import run_command

pytestmark = [pytest.mark.faults]
POISONED = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC)
BROKEN = NewRecord(b"\0\x63", b"\0\0\0", 0)
OFFSET = 42


def commit(client):
    for kind, key in enumerate(("g", "x", f"g:{'A' * 22}:0")):
        client.ask(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 6)
    client.ask(MetadataRequest([MetadataRequest.MetadataRequestTopic(name="t")], allow_auto_topic_creation=True), 9)
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(0, OFFSET)
    topic = OffsetCommitRequest.OffsetCommitRequestTopic("t", partitions=[partition])
    answer = client.ask(OffsetCommitRequest("g", topics=[topic]), 7)
    assert answer.topics[0].partitions[0].error_code == 0


def committed(client):
    wanted = OffsetFetchRequest.OffsetFetchRequestTopics("t", partition_indexes=[0])
    group = OffsetFetchRequest.OffsetFetchRequestGroup("g", topics=[wanted])
    (found,) = client.ask(OffsetFetchRequest(groups=[group]), 8).groups
    return found.topics[0].partitions[0].committed_offset


def poison(data):
    """Append what an older release, or another tool, may have left."""
    journal, broker = open_broker(data, BrokerConfig())
    try:
        for topic in POISONED:
            batch = build_batch([BROKEN])
            entry = broker.logs.find(topic, 0).append(read_header(batch), batch, 0).entry
            journal.sync(journal.write([entry]))
            broker.entries_durable([entry])
    finally:
        journal.close()


def inspected(data):
    ended = run_command("inspect", "--json", str(data))
    assert ended.returncode == 0, ended.stderr
    lines = map(json.loads, ended.stdout.splitlines())
    return [(line["topic"], line["partition"], line["offset"]) for line in lines if line["type"] == "set_aside"]


@pytest.mark.parametrize(("mode", "end"), [("classic", "stop"), ("pipelined", "kill")])
def test_it_starts_says_what_it_sets_aside_and_serves(broker_process, monkeypatch, mode, end):
    first = broker_process(mode=mode)
    with WireClient((first.host, first.port)) as client:
        commit(client)
        monkeypatch.setattr(wire_client, "CLIENT_ID", ADMIN_CLIENT_ID)
        data = [ProduceRequest.PartitionProduceData(0, build_batch([BROKEN]))]
        topics = [ProduceRequest.TopicProduceData(topic, partition_data=data) for topic in POISONED]
        answers = client.ask(ProduceRequest(acks=-1, topic_data=topics), 9).responses
        assert {answer.partition_responses[0].error_code for answer in answers} == {ErrorCode.INVALID_RECORD}
    first.stop()
    assert first.stderr == ""
    poison(first.data)
    places = {(topic, 0, 0) for topic in POISONED}
    assert set(inspected(first.data)) == places
    for _ in range(2):
        broker = broker_process(mode=mode)
        with WireClient((broker.host, broker.port)) as client:
            assert committed(client) == OFFSET
        lines = broker.stderr.splitlines()
        assert len(lines) == len(POISONED)
        for topic in POISONED:
            assert sum(f"{topic}-0 offset 0 is set aside: " in line for line in lines) == 1
        getattr(broker, end)()
    assert set(inspected(first.data)) == places
