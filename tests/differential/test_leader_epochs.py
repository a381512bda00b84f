"""Two brokers of Apache Kafka move the leader of a partition, and both modes answer about its epochs alike.

A single broker of ours never changes a leader, so the test begins the epochs that Kafka reached in its logs. A cluster
of ours has other leaders, at their first epochs.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

import attrs
import pytest

from pipeline_broker import EmbeddedBroker, EmbeddedCluster, ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches
from pipeline_broker.wire.messages.cluster.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from tests.differential.comparison import differences
from tests.differential.oracle import Side, running_kafka
from tests.kafka_tools import require_kafka

pytestmark = pytest.mark.xdist_group("kafka-cluster")

SETTLED_SECONDS_MAX = 60.0
METADATA, PRODUCE, FETCH, LIST_OFFSETS, END_OF_EPOCH, DELETE, REASSIGN, CREATE = 12, 9, 12, 9, 4, 2, 0, 7
PRODUCE_VERSIONS, FETCH_VERSIONS = (9, 10, 12, 13), (12, 13, 15, 16, 17)
PRODUCE_BY_ID = FETCH_BY_ID = 13
LEFT_OUT = frozenset({"topic_id", "records", "aborted_transactions"})
SEQUENCES = (
    ("produce", "move", "produce", "move", "produce"),
    ("move", "produce", "move", "move", "produce", "produce", "delete"),
    ("produce", "produce", "move", "delete", "produce", "move"),
)


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Two brokers of one cluster, by their ids."""
    require_kafka()
    directory = tmp_path_factory.mktemp("epochs")
    with running_kafka(directory, {}) as first, running_kafka(directory, {}, 2, first.controller) as second:
        sides = {1: Side("kafka-1", first.port), 2: Side("kafka-2", second.port)}
        wait_for(lambda: len(sides[1].ask(MetadataRequest(topics=[]), METADATA)["brokers"]) == 2)
        yield sides
        for side in sides.values():
            side.close()


@pytest.fixture(scope="module")
def modes():
    with ExitStack() as stack:
        brokers = [stack.enter_context(EmbeddedBroker(mode=mode)) for mode in ("classic", "pipelined")]
        sides = [(broker, Side(broker.mode, int(broker.bootstrap_servers.split(":")[1]))) for broker in brokers]
        yield sides
        for _, side in sides:
            side.close()


@pytest.fixture(scope="module")
def clusters():
    """Both modes as clusters of two brokers, which are the sides of each, by their ids."""
    with ExitStack() as stack:
        clusters = [stack.enter_context(EmbeddedCluster(2, mode=mode)) for mode in ("classic", "pipelined")]
        sides = [
            {each.node_id: Side(repr(each), each.addresses["PLAINTEXT"][1]) for each in cluster.brokers}
            for cluster in clusters
        ]
        yield sides
        for cluster in sides:
            for side in cluster.values():
                side.close()


def wait_for(is_so):
    deadline = time.monotonic() + SETTLED_SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline, "Apache Kafka does not settle"
        time.sleep(0.1)


@attrs.define
class Partition:
    """One partition in Apache Kafka's cluster and in both modes.

    Attributes:
        leader: id of the node that leads it in the cluster.
        epoch: its leader epoch there.
        count: the number of records that were produced.
    """

    name: str
    nodes: dict[int, Side]
    modes: list[tuple[EmbeddedBroker, Side]]
    leader: int = 1
    epoch: int = 0
    count: int = 0

    @property
    def sides(self):
        return [self.nodes[self.leader], *(side for _, side in self.modes)]

    def create(self):
        assignment = [CreateTopicsRequest.CreatableReplicaAssignment(0, [1])]
        topic = CreateTopicsRequest.CreatableTopic(self.name, -1, -1, assignment)
        for side in self.sides:
            (created,) = side.ask(CreateTopicsRequest([topic], 30_000), CREATE)["topics"]
            assert not created["error_code"]
        self.wait_led()

    def wait_led(self):
        """Wait until both nodes and the leader itself agree."""

        def is_led():
            found = [self.described(node) for node in self.nodes.values()]
            leads = all((it["leader_id"], len(it["replica_nodes"])) == (self.leader, 1) for it in found)
            return leads and found[0] == found[1] and not self.offsets(self.sides[0], -1)["error_code"]

        wait_for(is_led)
        self.epoch = self.described(self.nodes[self.leader])["leader_epoch"]

    def described(self, side):
        request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=self.name)])
        partitions = side.ask(request, METADATA)["topics"][0]["partitions"]
        return partitions[0] if partitions else {"leader_id": -1, "replica_nodes": []}

    def produce(self):
        times = [1000 + self.count, 1000 + self.count + 1]
        self.count += len(times)
        data = [ProduceRequest.PartitionProduceData(0, build_batch([NewRecord(b"v", b"k", each) for each in times]))]
        request = ProduceRequest(
            None, -1, 30_000, [ProduceRequest.TopicProduceData(name=self.name, partition_data=data)]
        )
        for side in self.sides:
            assert not side.ask(request, PRODUCE)["responses"][0]["partition_responses"][0]["error_code"]

    def move(self):
        self.leader = 3 - self.leader
        partition = AlterPartitionReassignmentsRequest.ReassignablePartition(0, [self.leader])
        topic = AlterPartitionReassignmentsRequest.ReassignableTopic(self.name, [partition])
        answer = self.nodes[1].ask(AlterPartitionReassignmentsRequest(topics=[topic]), REASSIGN)
        assert not answer["responses"][0]["partitions"][0]["error_code"]
        self.wait_led()
        for broker, _ in self.modes:
            broker.on_loop(self._begin_epoch)

    def _begin_epoch(self, running):
        log = running.broker.logs.find(self.name, 0)
        log.begin_epoch(self.epoch, log.log_end_offset)

    def delete(self):
        partition = DeleteRecordsRequest.DeleteRecordsPartition(0, self.count - 1)
        request = DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(self.name, [partition])], 30_000)
        for side in self.sides:
            assert not side.ask(request, DELETE)["topics"][0]["partitions"][0]["error_code"]

    def offsets(self, side, timestamp, known=-1):
        partition = ListOffsetsRequest.ListOffsetsPartition(0, known, timestamp)
        request = ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(self.name, [partition])])
        return side.ask(request, LIST_OFFSETS)["topics"][0]["partitions"][0]

    def end_of(self, side, epoch, known):
        partition = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, known, epoch)
        topics = [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(self.name, [partition])]
        return side.ask(OffsetForLeaderEpochRequest(topics=topics), END_OF_EPOCH)["topics"][0]["partitions"][0]

    def fetched(self, side, offset, known, last_epoch):
        wanted = FetchRequest.FetchPartition(0, known, offset, last_epoch, partition_max_bytes=1 << 20)
        topics = [FetchRequest.FetchTopic(self.name, partitions=[wanted])]
        answer = side.ask(FetchRequest(min_bytes=0, max_wait_ms=0, session_epoch=-1, topics=topics), FETCH)
        partition = answer["responses"][0]["partitions"][0]
        records = partition.pop("records") or b""
        epochs = [header.partition_leader_epoch for header, _ in iterate_batches(records)]
        return {**partition, "epochs": epochs}

    def answers(self, side):
        epochs = range(-3, self.epoch + 3)
        return {
            "leader epoch": self.described(side)["leader_epoch"],
            "offsets": [self.offsets(side, each) for each in (-1, -2, -3, *range(999, 1001 + self.count))],
            "known": [self.offsets(side, each, known) for each in (-1, -2, 1000) for known in epochs],
            "ends": [self.end_of(side, epoch, known) for epoch in epochs for known in epochs],
            "fetched": [
                self.fetched(side, offset, known, last)
                for offset in range(self.count + 2)
                for known in (-1, self.epoch - 1, self.epoch, self.epoch + 1)
                for last in epochs
            ],
        }


@pytest.mark.parametrize("sequence", SEQUENCES, ids=" ".join)
def test_epochs_are_as_in_kafka(nodes, modes, sequence, request):
    partition = Partition(f"t-{request.node.callspec.id.replace(' ', '-')}", nodes, modes)
    partition.create()
    for step in sequence:
        getattr(partition, step)()
        kafka, *ours = [partition.answers(side) for side in partition.sides]
        for name, expected in kafka.items():
            assert [answers[name] for answers in ours] == [expected, expected], (name, step)
    assert partition.epoch >= 2


def brokers_asked(cluster, name, epoch):
    """The answers of both brokers of a cluster about a partition that broker 1 leads, by request."""
    answers = {}
    (topic,) = cluster[1].ask(MetadataRequest([MetadataRequest.MetadataRequestTopic(name=name)]), METADATA)["topics"]
    for known, request in (("unknown", -1), ("old", epoch - 2), ("current", epoch), ("new", epoch + 1)):
        for api, version, message in messages(name, topic["topic_id"], request):
            for node, side in cluster.items():
                answers[api, version, known, node] = relative(side.ask(message, version), epoch, cluster)
    return answers


def messages(name, topic_id, known):
    """(api, version, request) with a leader epoch that a client knows."""
    for version in PRODUCE_VERSIONS:
        data = [ProduceRequest.PartitionProduceData(0, build_batch([NewRecord(b"v", b"k", 1)]))]
        by_id = {"topic_id": topic_id} if version >= PRODUCE_BY_ID else {"name": name}
        topics = [ProduceRequest.TopicProduceData(**by_id, partition_data=data)]
        yield "produce", version, ProduceRequest(None, -1, 30_000, topics)
    for version in FETCH_VERSIONS:
        wanted = [FetchRequest.FetchPartition(0, known, 0, partition_max_bytes=1 << 20)]
        by_id = {"topic_id": topic_id} if version >= FETCH_BY_ID else {"topic": name}
        topics = [FetchRequest.FetchTopic(**by_id, partitions=wanted)]
        yield "fetch", version, FetchRequest(min_bytes=0, max_wait_ms=0, session_epoch=-1, topics=topics)
    wanted = [ListOffsetsRequest.ListOffsetsPartition(0, known, -1)]
    yield "offsets", LIST_OFFSETS, ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(name, wanted)])
    wanted = [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(0, known, known)]
    topics = [OffsetForLeaderEpochRequest.OffsetForLeaderTopic(name, wanted)]
    yield "end", END_OF_EPOCH, OffsetForLeaderEpochRequest(topics=topics)


def relative(answer, epoch, cluster):
    """An answer with epochs counted from the present one, and without what differs between clusters."""
    if isinstance(answer, list):
        return [relative(each, epoch, cluster) for each in answer]
    if not isinstance(answer, dict):
        return answer
    if "host" in answer:
        assert answer["port"] == cluster[answer["node_id"]].port
        return answer["node_id"]
    kept = {name: value for name, value in answer.items() if name not in LEFT_OUT}
    return {
        name: value - epoch if name == "leader_epoch" and value >= 0 else relative(value, epoch, cluster)
        for name, value in kept.items()
    }


def test_a_broker_that_does_not_lead_answers_as_in_kafka(nodes, clusters):
    """KIP-320 and KIP-951, with epochs that a client knows from before, of now, and from a later leader."""
    partition = Partition("elsewhere", nodes, [])
    partition.create()
    for _ in range(2):
        partition.move()
    assert partition.leader == 1
    expected = brokers_asked(nodes, partition.name, partition.epoch)
    codes = {code for answer in expected.values() for code in error_codes(answer)}
    assert codes >= {0, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH}
    for cluster in clusters:
        create_at(cluster[2], partition.name)
        found = brokers_asked(cluster, partition.name, 0)
        assert {asked: texts for asked in expected if (texts := differences(expected[asked], found[asked]))} == {}


def create_at(side, name):
    """Create a topic whose only partition broker 1 leads."""
    topic = CreateTopicsRequest.CreatableTopic(name, -1, -1, [CreateTopicsRequest.CreatableReplicaAssignment(0, [1])])
    (created,) = side.ask(CreateTopicsRequest([topic], 30_000), CREATE)["topics"]
    assert not created["error_code"]


def error_codes(answer):
    if isinstance(answer, list):
        return [code for each in answer for code in error_codes(each)]
    if not isinstance(answer, dict):
        return []
    own = [answer["error_code"]] if "error_code" in answer else []
    return own + error_codes(list(answer.values()))
