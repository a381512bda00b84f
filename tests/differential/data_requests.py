"""Requests about topics and their records, drawn by Hypothesis; see oracle for what a side adds to them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import attrs
from hypothesis import strategies as st

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from pipeline_broker.wire.messages.data.delete_records import DeleteRecordsRequest
from pipeline_broker.wire.messages.data.fetch import FetchReplicaState, FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.registry import ApiKey
from tests.bad_input.test_records import REFUSED, UNREADABLE
from tests.differential.oracle import Side

TOPICS = {"one": 1, "three": 3}
"""Topics that are there from the beginning, with their partitions."""
AUTO_TOPICS = ["auto0", "auto1", "auto2"]
BAD_NAMES = ["", ".", "..", "bad name", "x" * 250]
NOW_MS = time.time_ns() // 1_000_000
NO_ID = bytes(16)
ZSTD_FROM = 7
NOT_AS_KAFKA = {
    "null records",  # Kafka never answers
    "a varint without end",  # -1 from Kafka: an exception that nobody expected
    "a length beyond the rest",  # the same, for all partitions of the request
}
"""Bad batches that we answer otherwise on purpose; docs/reference/compatibility.md says why."""

topics = st.sampled_from([*TOPICS, *TOPICS, "missing", *BAD_NAMES[1:4]])
partitions = st.sampled_from([0, 0, 0, 1, 2, 3, -1, 2**31 - 1])
bytes_limits = st.sampled_from([0, 1, 100, 1 << 20, 2**31 - 1])
isolation_levels = st.sampled_from([0, 1])


@attrs.frozen
class Ask:
    """One request in one version, built for each side by itself.

    Attributes:
        changes_topics: whether topics may be others after it.
        changes_quotas, changes_acls, changes_users: whether quotas, rules of access or SCRAM users may.
        changes_settings: whether settings of topics, groups or subscriptions may.
    """

    version: int
    build: Callable[[Side], Any]
    changes_topics: bool = False
    text: str = ""
    changes_quotas: bool = False
    changes_acls: bool = False
    changes_users: bool = False
    changes_settings: bool = False

    def __repr__(self) -> str:
        return f"v{self.version} {self.text}"


def ask(version: int, message: Any, *, changes_topics: bool = False, changes_settings: bool = False) -> Ask:
    """A request that is the same for all sides."""
    return Ask(version, lambda _side: message, changes_topics, repr(message), changes_settings=changes_settings)


def topic_id(side: Side, name: str) -> bytes:
    """The id, or one that is nobody's: each unknown name has its own, so that nothing is named twice."""
    if not name:
        return NO_ID
    found = side.topic_ids.get(name)
    if found is None:
        found = name[-16:].encode().rjust(16, b"?")
        side.names[found] = f"unknown {name}"
    return found


@attrs.frozen
class Batch:
    """Records with a name that is short to print."""

    name: str
    data: bytes | None

    def __repr__(self) -> str:
        return self.name


@st.composite
def good_batches(draw: st.DrawFn, codecs: Sequence[int]) -> Batch:
    values = draw(st.lists(st.none() | st.binary(max_size=20), min_size=1, max_size=5))
    headers = draw(st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2))
    step = draw(st.sampled_from([0, 1, -5]))
    key = draw(st.sampled_from([None, b"", b"key"]))
    codec = draw(st.sampled_from(codecs))
    records = [NewRecord(value, key, NOW_MS + index * step, tuple(headers)) for index, value in enumerate(values)]
    return Batch(f"{len(values)} records in codec {codec}, times {step} apart", build_batch(records, compression=codec))


BAD_BATCHES = {name: records for name, (records, _) in REFUSED.items() if name not in NOT_AS_KAFKA} | UNREADABLE


def bad_batches(version: int) -> st.SearchStrategy[Batch]:
    names = sorted(BAD_BATCHES)
    if version < ZSTD_FROM:  # Kafka then stumbles over the whole request
        names = [name for name in names if not name.startswith("compression")]
    return st.sampled_from(names).map(lambda name: Batch(name, BAD_BATCHES[name]))


@st.composite
def produce(draw: st.DrawFn, version: int) -> Ask:
    acks = draw(st.sampled_from([-1, -1, 1, 1, 2]))
    if acks in (-1, 1):
        good = good_batches([0, 0, 1, 2, 3, 4])
        contents = st.one_of(good, good, bad_batches(version))
    else:  # then we do not look at the records
        contents = good_batches([0, 1, 2, 3])
    wanted = draw(
        st.dictionaries(topics, st.dictionaries(partitions, contents, min_size=1, max_size=2), min_size=1, max_size=2)
    )
    transactional_id = draw(st.sampled_from([None, None, None, "transaction"]))

    def build(side: Side) -> ProduceRequest:
        data = ProduceRequest.PartitionProduceData
        return ProduceRequest(
            transactional_id=transactional_id,
            acks=acks,
            timeout_ms=10_000,
            topic_data=[
                ProduceRequest.TopicProduceData(
                    name=name,
                    topic_id=topic_id(side, name),
                    partition_data=[data(index, batch.data) for index, batch in per_partition.items()],
                )
                for name, per_partition in wanted.items()
            ],
        )

    return Ask(version, build, text=f"produce acks={acks} {wanted}")


@st.composite
def fetch(draw: st.DrawFn, version: int) -> Ask:
    offsets = st.sampled_from([0, 0, 1, 5, -1, 10**6])
    per_partition = st.tuples(offsets, bytes_limits, st.sampled_from([-1, -1, 0, 1]))
    wanted = draw(st.dictionaries(topics, st.dictionaries(partitions, per_partition, max_size=3), max_size=2))
    bytes_max, bytes_min = draw(bytes_limits), draw(st.sampled_from([0, 1]))
    isolation, epoch = draw(isolation_levels), draw(st.sampled_from([-1, -1, -1, 0, 1]))
    session_id = draw(st.sampled_from([0, 0, 0, 77]))
    replica_id = draw(st.sampled_from([-1] * 8 + [-2, 0, 1]))

    def build(side: Side) -> FetchRequest:
        state = FetchReplicaState(replica_id) if version >= 15 else FetchRequest.ReplicaState()
        return FetchRequest(
            replica_id=replica_id if version < 15 else -1,
            replica_state=state,
            max_wait_ms=0,
            min_bytes=bytes_min,
            max_bytes=bytes_max,
            isolation_level=isolation,
            session_id=session_id,
            session_epoch=epoch,
            topics=[
                FetchRequest.FetchTopic(
                    topic=name,
                    topic_id=topic_id(side, name),
                    partitions=[
                        FetchRequest.FetchPartition(
                            partition=index, fetch_offset=offset, partition_max_bytes=limit, current_leader_epoch=leader
                        )
                        for index, (offset, limit, leader) in parts.items()
                    ],
                )
                for name, parts in wanted.items()
            ],
        )

    return Ask(version, build, text=f"fetch replica={replica_id} session={session_id}/{epoch} max={bytes_max} {wanted}")


@st.composite
def list_offsets(draw: st.DrawFn, version: int) -> Ask:
    times = st.sampled_from([-1, -2, -3, -4, -5, -6, -7, 0, NOW_MS, NOW_MS + 2, NOW_MS + 10**6])
    per_partition = st.tuples(times, st.sampled_from([-1, -1, 0, 1]))
    wanted = draw(st.dictionaries(topics, st.lists(st.tuples(partitions, per_partition), max_size=3), max_size=2))
    request = ListOffsetsRequest(
        replica_id=draw(st.sampled_from([-1, -1, -1, -2, 0, 1])),
        isolation_level=draw(isolation_levels) if version >= 2 else 0,
        timeout_ms=1000,
        topics=[
            ListOffsetsRequest.ListOffsetsTopic(
                name, [ListOffsetsRequest.ListOffsetsPartition(index, epoch, at) for index, (at, epoch) in parts]
            )
            for name, parts in wanted.items()
        ],
    )
    return ask(version, request)


@st.composite
def delete_records(draw: st.DrawFn, version: int) -> Ask:
    """Little of the topics that other requests are about, and partitions named more than once."""
    offsets = st.sampled_from([0, 1, 2, 3, -1, -2, 10**6, 2**63 - 1])
    names = topics | st.sampled_from(["__consumer_offsets", "made0", "made1"])
    wanted = draw(st.lists(st.tuples(names, st.lists(st.tuples(partitions, offsets), max_size=3)), max_size=3))
    request = DeleteRecordsRequest(
        [
            DeleteRecordsRequest.DeleteRecordsTopic(
                name, [DeleteRecordsRequest.DeleteRecordsPartition(*pair) for pair in pairs]
            )
            for name, pairs in wanted
        ],
        timeout_ms=draw(st.sampled_from([20_000, 20_000, 0, -1])),
    )
    return ask(version, request)


@st.composite
def offset_for_leader_epoch(draw: st.DrawFn, version: int) -> Ask:
    epochs = st.sampled_from([0, 0, 0, 1, -1, -2, -5, 2**31 - 1])
    current = st.sampled_from([-1, -1, -1, 0, 1, -5])
    parts = st.lists(st.tuples(partitions, current, epochs), max_size=3)
    asked = OffsetForLeaderEpochRequest
    request = asked(
        topics=[
            asked.OffsetForLeaderTopic(name, [asked.OffsetForLeaderPartition(*part) for part in wanted])
            for name, wanted in draw(st.lists(st.tuples(topics, parts), max_size=3))
        ]
    )
    if version >= 3:
        request.replica_id = draw(st.sampled_from([-2, -1, 0, 1]))
    return ask(version, request)


@st.composite
def metadata(draw: st.DrawFn, version: int) -> Ask:
    names = draw(st.none() | st.lists(topics | st.sampled_from(AUTO_TOPICS + BAD_NAMES), max_size=3, unique=True))
    by_id = version >= 12 and draw(st.booleans())
    creates = draw(st.booleans())
    operations = draw(st.booleans())

    def build(side: Side) -> MetadataRequest:
        wanted = MetadataRequest.MetadataRequestTopic
        if version == 0 and names is None:
            asked: list[Any] | None = []
        elif names is None:
            asked = None
        elif by_id:
            asked = [wanted(topic_id=topic_id(side, name), name=None) for name in names if name]
        else:
            asked = [wanted(name=name) for name in names]
        return MetadataRequest(
            topics=asked,
            allow_auto_topic_creation=creates if version >= 4 else True,
            include_cluster_authorized_operations=operations and 8 <= version <= 10,
            include_topic_authorized_operations=operations and version >= 8,
        )

    return Ask(version, build, changes_topics=True, text=f"metadata {names} by_id={by_id} creates={creates}")


@st.composite
def api_versions(draw: st.DrawFn, version: int) -> Ask:
    texts = st.sampled_from(["client", "1.2.3", "a-b.c", "", "-a", "a-", "a b", "\N{SNOWMAN}"])
    if version < 3:
        return ask(version, ApiVersionsRequest())
    request = ApiVersionsRequest(draw(texts), draw(texts))
    if version < 5:
        return ask(version, request)
    is_own = draw(st.booleans())
    request.cluster_id, request.node_id = (
        draw(st.sampled_from([None, "", "other"])),
        draw(st.sampled_from([-1, 1, 2, -2])),
    )

    def build(side: Side) -> ApiVersionsRequest:
        return attrs.evolve(request, cluster_id=side.cluster_id) if is_own else request

    return Ask(version, build, text=f"{request} is_own={is_own}")


@st.composite
def init_producer_id(draw: st.DrawFn, version: int) -> Ask:
    request = InitProducerIdRequest(
        transactional_id=draw(st.sampled_from([None, None, ""])),
        transaction_timeout_ms=draw(st.sampled_from([0, 60_000, -1, 2**31 - 1])),
    )
    if version >= 3:
        request.producer_id, request.producer_epoch = draw(
            st.sampled_from([(-1, -1), (5, 3), (0, 0), (-1, 3), (5, -1)])
        )
    return ask(version, request)


DATA_REQUESTS = {
    ApiKey.PRODUCE: produce,
    ApiKey.FETCH: fetch,
    ApiKey.LIST_OFFSETS: list_offsets,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offset_for_leader_epoch,
    ApiKey.DELETE_RECORDS: delete_records,
    ApiKey.METADATA: metadata,
    ApiKey.API_VERSIONS: api_versions,
    ApiKey.INIT_PRODUCER_ID: init_producer_id,
}
