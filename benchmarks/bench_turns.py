"""Measure turns of the event loop, during which all other clients wait: those above 5 ms, and the longest, by request.

    python benchmarks/bench_turns.py [--only topic] [--members 1000] [--mode pipelined]

Each case has its own broker and runs twice: first with few elements, which imports the modules of its requests, then
with many. For each step of both, the longest turn is shown by processor time, which other processes barely affect, and
by the clock. Garbage collections are shown apart from it. The benchmark fails if a turn takes more than 5 ms of
processor time without them, except at the first use, which is shown only.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from bench_groups import (
    CLASSIC_VERSION,
    PROTOCOLS,
    SETTINGS,
    Connection,
    ask,
    ask_all,
    classic_join,
    classic_rebalance,
    classic_sync,
    consumer_rebalance,
    prepare,
)
from turn_noting_broker import NotedTurn, environment_with_bytecode, noted_turns, turn_noting_broker

from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.configs.describe_configs import DescribeConfigsRequest
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.describe_groups import DescribeGroupsRequest
from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.leave_group import LeaveGroupRequest
from pipeline_broker.wire.messages.groups.list_groups import ListGroupsRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.topics.create_partitions import CreatePartitionsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.messages.transactions.add_offsets_to_txn import AddOffsetsToTxnRequest
from pipeline_broker.wire.messages.transactions.add_partitions_to_txn import AddPartitionsToTxnRequest
from pipeline_broker.wire.messages.transactions.end_txn import EndTxnRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.messages.transactions.txn_offset_commit import TxnOffsetCommitRequest

BOUND_SECONDS = 0.005
LITTLE = 3
PARTITIONS = 10_000
OFFSETS = 5_000
"""Offsets in one request. They form one batch of records, which must not exceed 1 MB."""
DECIDED_AT_ONCE = 9_000
"""Partitions in one transaction. A coordinator decides about 10,000 elements in one request, and a topic is one too."""
SHORT_SESSION_MS = 2_000
QUIET_SECONDS = 0.3
"""Pause after a step, for work that the broker does after its last answer."""
TOGETHER = ("--set", "group.initial.rebalance.delay.ms=1000", "--set", "group.min.session.timeout.ms=1000")
TOPIC, BROKER = 2, 4
ONE_RECORD = build_batch([NewRecord(b"value", None, 0)])

Case = Callable[[int, int], Iterator[str]]
"""Runs a case, given a port and a number of elements; yields the name of each step before it."""


def create(connection: Connection, name: str, partitions: int) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1)
    assert not ask(connection, CreateTopicsRequest([topic], 30_000), 4).topics[0].error_code


def metadata(port: int, count: int) -> Iterator[str]:
    connection = Connection(port)
    yield "create topics of 10 partitions each"
    for number in range(count // 10):
        create(connection, f"of-{count}-{number}", 10)
    yield "Metadata of all partitions, ten times"
    for _ in range(10):
        ask(connection, MetadataRequest(topics=None), 5)
    yield "a setting of the broker that topics inherit"
    setting = IncrementalAlterConfigsRequest.AlterableConfig("log.retention.ms", 0, "86400000")
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(BROKER, "", [setting])
    assert not ask(connection, IncrementalAlterConfigsRequest([resource]), 0).responses[0].error_code
    yield "DescribeConfigs of all topics"
    resources = [
        DescribeConfigsRequest.DescribeConfigsResource(TOPIC, f"of-{count}-{number}", None)
        for number in range(count // 10)
    ]
    ask(connection, DescribeConfigsRequest(resources), 1)


def topics(port: int, count: int) -> Iterator[str]:
    connection = Connection(port)
    yield "create a topic"
    create(connection, f"large-{count}", count)
    yield "a setting of the topic"
    setting = IncrementalAlterConfigsRequest.AlterableConfig("retention.ms", 0, "86400000")
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(TOPIC, f"large-{count}", [setting])
    assert not ask(connection, IncrementalAlterConfigsRequest([resource]), 0).responses[0].error_code
    yield "delete it"
    answer = ask(connection, DeleteTopicsRequest(topic_names=[f"large-{count}"], timeout_ms=30_000), 4)
    assert not answer.responses[0].error_code, answer
    create(connection, f"growing-{count}", 1)
    yield "add partitions to one of one"
    topic = CreatePartitionsRequest.CreatePartitionsTopic(f"growing-{count}", count, None)
    assert not ask(connection, CreatePartitionsRequest([topic], 30_000), 1).results[0].error_code


def auto_created(port: int, count: int) -> Iterator[str]:
    names = [MetadataRequest.MetadataRequestTopic(name=f"auto-{count}-{number}") for number in range(count)]
    yield "Metadata that names missing topics"
    ask(Connection(port), MetadataRequest(topics=names, allow_auto_topic_creation=True), 5)


def data(port: int, count: int) -> Iterator[str]:
    connection, name = Connection(port), f"data-{count}"
    create(connection, name, count)
    yield "Produce"
    produced = [ProduceRequest.PartitionProduceData(index, ONE_RECORD) for index in range(count)]
    request = ProduceRequest(
        acks=-1, timeout_ms=9000, topic_data=[ProduceRequest.TopicProduceData(name, b"\0" * 16, produced)]
    )
    ask(connection, request, 9)
    yield "Fetch"
    fetched = [
        FetchRequest.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
        for index in range(count)
    ]
    fetch = FetchRequest(
        topics=[FetchRequest.FetchTopic(topic=name, partitions=fetched)],
        max_bytes=1 << 25,
        min_bytes=1,
        max_wait_ms=1000,
        session_epoch=0,
    )
    answer = ask(connection, fetch, 12)
    yield "Fetch that waits, of a session"
    fetch = FetchRequest(
        max_bytes=1 << 25, min_bytes=1 << 24, max_wait_ms=100, session_epoch=1, session_id=answer.session_id
    )
    ask(connection, fetch, 12)
    yield "ListOffsets"
    listed = [ListOffsetsRequest.ListOffsetsPartition(index, -1, -1) for index in range(count)]
    ask(connection, ListOffsetsRequest(-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name, listed)]), 4)
    yield "ListOffsets by time"
    listed = [ListOffsetsRequest.ListOffsetsPartition(index, -1, 0) for index in range(count)]
    ask(connection, ListOffsetsRequest(-1, topics=[ListOffsetsRequest.ListOffsetsTopic(name, listed)]), 4)
    yield "OffsetForLeaderEpoch"
    epochs = [OffsetForLeaderEpochRequest.OffsetForLeaderPartition(index, -1, 0) for index in range(count)]
    ask(
        connection,
        OffsetForLeaderEpochRequest(topics=[OffsetForLeaderEpochRequest.OffsetForLeaderTopic(name, epochs)]),
        3,
    )
    yield "DeleteRecords"
    deleted = [DeleteRecordsRequest.DeleteRecordsPartition(index, 1) for index in range(count)]
    ask(connection, DeleteRecordsRequest([DeleteRecordsRequest.DeleteRecordsTopic(name, deleted)], 30_000), 1)


def offsets(port: int, count: int) -> Iterator[str]:
    connection, name, group = Connection(port), f"offsets-{count}", f"offsets-{count}"
    create(connection, name, count)
    while ask(connection, FindCoordinatorRequest(key="g"), 2).error_code:
        time.sleep(0.01)
    yield "OffsetCommit"
    committed = [OffsetCommitRequest.OffsetCommitRequestPartition(index, 0, -1, "") for index in range(count)]
    request = OffsetCommitRequest(
        group, topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name, partitions=committed)]
    )
    assert not ask(connection, request, 7).topics[0].partitions[0].error_code
    yield "OffsetFetch of all"
    ask(connection, OffsetFetchRequest(group, topics=None), 7)
    yield "OffsetFetch of each"
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name, list(range(count)))
    ask(connection, OffsetFetchRequest(group, topics=[topic]), 7)
    yield "DeleteTopics of the topic with committed offsets"
    assert not ask(connection, DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), 4).responses[0].error_code


def transaction(port: int, count: int) -> Iterator[str]:
    connection, name, group = Connection(port), f"txn-{count}", f"txn-{count}"
    create(connection, name, count)
    for kind in (0, 1):
        while ask(connection, FindCoordinatorRequest(key="g", key_type=kind), 2).error_code:
            time.sleep(0.01)
    producer = ask(connection, InitProducerIdRequest(f"t-{count}", 60_000), 2)
    assert not producer.error_code
    ids = (producer.producer_id, producer.producer_epoch)
    yield "AddPartitionsToTxn"
    added = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name, list(range(count)))
    request = AddPartitionsToTxnRequest([], f"t-{count}", *ids, [added])
    result = ask(connection, request, 2).results_by_topic_v3_and_below[0].results_by_partition[0]
    assert not result.partition_error_code, result
    yield "Produce in a transaction"
    batch = build_batch(
        [NewRecord(b"v", None, 0)], producer_id=ids[0], producer_epoch=ids[1], base_sequence=0, transactional=True
    )
    produced = [ProduceRequest.PartitionProduceData(index, batch) for index in range(count)]
    request = ProduceRequest(f"t-{count}", -1, 9000, [ProduceRequest.TopicProduceData(name, b"\0" * 16, produced)])
    assert not ask(connection, request, 9).responses[0].partition_responses[-1].error_code
    joining = AddOffsetsToTxnRequest(f"t-{count}", *ids, group)
    assert not ask(connection, joining, 2).error_code
    yield "TxnOffsetCommit"
    stored = [TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition(index, 0, -1, "") for index in range(count)]
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name, partitions=stored)
    answer = ask(connection, TxnOffsetCommitRequest(f"t-{count}", group, *ids, topics=[topic]), 2)
    assert not answer.topics[0].partitions[0].error_code
    yield "EndTxn"
    assert not ask(connection, EndTxnRequest(f"t-{count}", *ids, committed=True), 2).error_code


def prepare_members(port: int, count: int) -> None:
    if count == LITTLE:
        prepare(port, count)
    else:
        topic = CreatePartitionsRequest.CreatePartitionsTopic("t", count, None)
        assert not ask(Connection(port), CreatePartitionsRequest([topic], 30_000), 1).results[0].error_code


def rebalanced(rebalance: Callable[[list[Connection], str], float]) -> Case:
    """Return a case in which all members but one join, and then the last one."""

    def case(port: int, count: int) -> Iterator[str]:
        prepare_members(port, count)
        connections = [Connection(port) for _ in range(count)]
        yield "a rebalance"
        rebalance(connections, f"group-{count}")
        yield "the connections are closed"
        for connection in connections:
            connection.socket.close()

    return case


def members(port: int, count: int) -> Iterator[str]:
    """Run requests and timeouts that affect all members of a classic group."""
    prepare_members(port, count)
    connections = [Connection(port) for _ in range(count)]
    yield "a group forms"
    joined = classic_join(connections, [""] * count, f"leaving-{count}")
    yield "SyncGroup"
    classic_sync(connections, joined, f"leaving-{count}")
    yield "DescribeGroups"
    ask(connections[0], DescribeGroupsRequest([f"leaving-{count}"]), 3)
    yield "LeaveGroup of all members"
    leaving = [LeaveGroupRequest.MemberIdentity(each.member_id) for each in joined]
    answer = ask(connections[0], LeaveGroupRequest(f"leaving-{count}", members=leaving), 3)
    assert not any(each.error_code for each in answer.members)
    short = [
        JoinGroupRequest(f"silent-{count}", SHORT_SESSION_MS, SHORT_SESSION_MS, "", None, "consumer", PROTOCOLS)
        for _ in connections
    ]
    assert not any(each.error_code for each in ask_all(connections, short, CLASSIC_VERSION))
    yield "the sessions of all members time out"
    time.sleep(2.5 * SHORT_SESSION_MS / 1000)


def groups(port: int, count: int) -> Iterator[str]:
    connection, name = Connection(port), f"groups-{count}"
    create(connection, name, 1)
    while ask(connection, FindCoordinatorRequest(key="g"), 2).error_code:
        time.sleep(0.01)
    ids = [f"group-{count}-{number}" for number in range(count)]
    committed = [OffsetCommitRequest.OffsetCommitRequestPartition(0, 0, -1, "")]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name, partitions=committed)
    for group in ids:
        ask(connection, OffsetCommitRequest(group, topics=[topic]), 7)
    yield "ListGroups"
    ask(connection, ListGroupsRequest(), 3)
    yield "DescribeGroups of each"
    ask(connection, DescribeGroupsRequest(ids), 3)
    yield "FindCoordinator of each"
    ask(connection, FindCoordinatorRequest(coordinator_keys=ids), 4)
    yield "OffsetFetch of each"
    wanted = [OffsetFetchRequest.OffsetFetchRequestGroup(group, topics=None) for group in ids]
    ask(connection, OffsetFetchRequest(groups=wanted), 8)
    yield "DeleteTopics of the topic with offsets of each"
    create(connection, f"other-{count}", 1)
    ask(connection, DeleteTopicsRequest(topic_names=[name], timeout_ms=30_000), 4)
    yield "DeleteGroups"
    ask(connection, DeleteGroupsRequest(ids), 1)


def archived(port: int, count: int) -> Iterator[str]:
    yield "Produce, as fast as it goes"
    run_load(LoadOptions("127.0.0.1", port, 16, 16, record_size=1000, seconds=float(count), warmup_s=0.0))


def cases(member_count: int) -> Mapping[str, tuple[Case, int]]:
    """Return all cases by name, each with its large number of elements."""
    return {
        f"topics of {PARTITIONS:,} partitions together": (metadata, PARTITIONS),
        f"a topic of {PARTITIONS:,} partitions": (topics, PARTITIONS),
        "1,000 topics created by Metadata": (auto_created, 1_000),
        f"requests about {PARTITIONS:,} partitions": (data, PARTITIONS),
        f"offsets of {OFFSETS:,} partitions": (offsets, OFFSETS),
        f"a transaction of {DECIDED_AT_ONCE:,} partitions": (transaction, DECIDED_AT_ONCE),
        f"a rebalance of {member_count:,} members, classic protocol": (rebalanced(classic_rebalance), member_count),
        f"a rebalance of {member_count:,} members, consumer protocol": (rebalanced(consumer_rebalance), member_count),
        f"a group of {member_count:,} members": (members, member_count),
        "1,000 groups": (groups, 1_000),
        "10 s of records of 1,000 bytes, with archiving": (archived, 10),
    }


def steps_of(case: Case, port: int, count: int, turns: Path) -> Iterator[tuple[str, list[NotedTurn]]]:
    """Run a case; yield the name of each step and its noted turns."""
    noted_turns(turns)
    name = None
    for following in case(port, count):
        if name is not None:
            time.sleep(QUIET_SECONDS)
            yield name, noted_turns(turns)
        else:
            noted_turns(turns)
        name = following
    time.sleep(QUIET_SECONDS)
    assert name is not None
    yield name, noted_turns(turns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="only cases with this in their names")
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--mode", choices=("classic", "pipelined"), default="pipelined")
    options = parser.parse_args()
    broken: list[str] = []
    chosen = {name: case for name, case in cases(options.members).items() if options.only in name}
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        environment = environment_with_bytecode(Path(folder) / "bytecode")
        for number, (name, (case, much)) in enumerate(chosen.items()):
            print(name, flush=True)
            own = Path(folder) / str(number)
            own.mkdir()
            with turn_noting_broker(own, environment, "--mode", options.mode, *SETTINGS, *TOGETHER) as (port, turns):
                for count, what in ((LITTLE, ", first use"), (much, "")):
                    for step, noted in steps_of(case, port, count, turns):
                        report(step + what, noted)
                        if not what and any(turn.step_seconds > BOUND_SECONDS for turn in noted):
                            broken.append(step)
    if broken:
        raise SystemExit(f"turns of more than {1e3 * BOUND_SECONDS:g} ms: {'; '.join(broken)}")


def report(step: str, noted: list[NotedTurn]) -> None:
    if not noted:
        print(f"  {step}: no turn of more than 1 ms", flush=True)
        return
    longest = max(noted, key=lambda turn: turn.step_seconds)
    long = sum(turn.step_seconds > BOUND_SECONDS for turn in noted)
    collecting = max(turn.collecting_seconds for turn in noted)
    print(
        f"  {step}: {f'BROKEN by {long}' if long else 'holds'};"
        f" {1e3 * longest.step_seconds:.1f} ms of processor time at most"
        f" ({1e3 * longest.clock_seconds:.1f} by the clock): {longest.name};"
        f" garbage collections of at most {1e3 * collecting:.1f} ms",
        flush=True,
    )


if __name__ == "__main__":
    main()
