"""What clients ask, and what the answers must be whatever the schedule.

Rules of this file: a function for each kind of act makes the request from the act and writes down what its answer says;
what an answer may not say is a complaint. An error that a fault of the scenario explains is none.
"""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch, iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from pipeline_broker.wire.messages.groups.offset_fetch import OffsetFetchRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.simulation.environment import EPOCH_MS
from tests.simulation.history import Read
from tests.simulation.watch import TOPIC
from tests.simulation.wire_client import Ask

FAILED = ErrorCode.UNKNOWN_SERVER_ERROR
LATEST = -1
FETCH_BYTES = 4000


def batch_bytes(batch, *, is_bad=False, **producer):
    """The records of a batch; a bad one has a wrong checksum."""
    records = bytearray(build_batch([NewRecord(value, timestamp=EPOCH_MS) for value in batch.values], **producer))
    if is_bad:
        records[-1] ^= 0xFF
    return bytes(records)


def produce_request(partition, acks, records):
    data = ProduceRequest.PartitionProduceData(partition, records)
    return ProduceRequest(
        acks=acks, timeout_ms=1000, topic_data=[ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])]
    )


def partition_answer(exchange):
    """The answer to a produce request for one partition."""
    ((answer,),) = (topic.partition_responses for topic in exchange.answer.responses)
    return answer


def produce(world, client, act, stream):
    """One batch of a producer that is not idempotent: sent once, whatever becomes of it."""
    batch = world.history.send(stream, act.partition, act.count, b"x" * act.size)
    refusals = (ErrorCode.CORRUPT_MESSAGE, FAILED) if act.is_bad else (FAILED,)

    def on_answer(exchange):
        answer = partition_answer(exchange)
        if answer.index != act.partition:
            world.complain(f"{client!r}: an answer for partition {answer.index}, not {act.partition}")
        if answer.error_code == ErrorCode.NONE and not act.is_bad:
            batch.acknowledge(answer.base_offset)
            offsets = range(answer.base_offset, answer.base_offset + act.count)
            client.life.watch.check_durable(f"{client!r} got an acknowledgement", act.partition, offsets)
        elif answer.error_code in refusals or client.life.explains(answer.error_code):
            batch.refuse()
        else:
            world.complain(f"{client!r}: batch {batch.values[0]!r} was answered {ErrorCode(answer.error_code).name}")

    if act.is_bad:
        batch.refuse()
    records = batch_bytes(batch, is_bad=act.is_bad)
    return Ask(produce_request(act.partition, act.acks, records), act.version, on_answer, batch)


def sequenced(world, client, act, stream):
    """One batch with a sequence number that does not wait for those before: for equal answers in both modes only."""
    batch = world.history.send(f"s{stream}", act.partition, act.count)
    producer = {"producer_id": 4000 + act.partition, "producer_epoch": 0, "base_sequence": client.sequence}
    client.sequence += act.count
    client.has_gap = client.has_gap or act.is_bad
    if client.has_gap:
        batch.refuse()
    records = batch_bytes(batch, is_bad=act.is_bad, **producer)
    return Ask(produce_request(act.partition, act.acks or -1, records), act.version)


def fetch_request(partition, position, act, session=(0, -1)):
    wanted = FetchRequest.FetchPartition(partition=partition, fetch_offset=position, partition_max_bytes=FETCH_BYTES)
    session_id, session_epoch = session
    return FetchRequest(
        max_wait_ms=act.wait,
        min_bytes=act.bytes_min,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchRequest.FetchTopic(topic=TOPIC, partitions=[wanted])] if wanted is not None else [],
    )


def records_of(data):
    """[(offset, value)] of the batches in a fetch answer."""
    return [
        (record.offset, bytes(record.value))
        for header, batch in iterate_batches(data or b"")
        for record in iterate_records(batch, header)
    ]


def take_read(world, client, position, answer):
    """Write down what one partition of a fetch answer holds; returns the records."""
    if client.life.explains(answer.error_code):
        return []
    if answer.error_code not in (ErrorCode.NONE, FAILED):
        world.complain(f"{client!r}: a fetch was answered {ErrorCode(answer.error_code).name}")
        return []
    records = records_of(answer.records)
    world.history.reads.append(Read(client.name, answer.partition_index, position, tuple(records)))
    offsets = [offset for offset, _ in records]
    client.life.watch.check_durable(f"{client!r} read", answer.partition_index, offsets)
    if offsets and offsets[-1] >= answer.high_watermark:
        world.complain(f"{client!r}: a record at {offsets[-1]} is above the high watermark {answer.high_watermark}")
    return records


def fetch(world, client, act, stream):
    """From the beginning, perhaps waiting."""

    def on_answer(exchange):
        for topic in exchange.answer.responses:
            for answer in topic.partitions:
                take_read(world, client, 0, answer)

    return Ask(fetch_request(act.partition, 0, act), 12 if act.version == 12 else 11, on_answer)


def list_offsets(world, client, act, stream):
    """The latest offset: behind all that was acknowledged, and nothing of it may be gone later."""
    acknowledged = world.history.end_of_acknowledged(act.partition)
    wanted = ListOffsetsRequest.ListOffsetsPartition(partition_index=act.partition, timestamp=LATEST)
    topic = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[wanted])

    def on_answer(exchange):
        ((answer,),) = (found.partitions for found in exchange.answer.topics)
        if answer.error_code == FAILED or client.life.explains(answer.error_code):
            return
        if answer.error_code or (answer.offset < acknowledged and client.life.is_latest):
            world.complain(f"{client!r}: the latest offset is {answer}, and {acknowledged} was acknowledged before")
        client.life.watch.check_durable(f"{client!r} was told of", act.partition, range(answer.offset))

    return Ask(ListOffsetsRequest(replica_id=-1, topics=[topic]), 5, on_answer)


def metadata(world, client, act, stream):
    def on_answer(exchange):
        (topic,) = exchange.answer.topics
        if topic.error_code == FAILED:
            return
        if (topic.name, topic.topic_id, len(topic.partitions)) != (TOPIC, world.topic_id, world.scenario.partitions):
            world.complain(f"{client!r}: the topic became {topic}")

    return Ask(MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)]), 12, on_answer)


def versions(world, client, act, stream):
    def on_answer(exchange):
        if exchange.answer.error_code not in (ErrorCode.NONE, FAILED):
            world.complain(f"{client!r}: ApiVersions was answered {exchange.answer.error_code}")

    return Ask(ApiVersionsRequest(client_software_name="simulation", client_software_version="1"), 3, on_answer)


def producer_id(world, client, act, stream):
    def on_answer(exchange):
        if exchange.answer.error_code == ErrorCode.NONE:
            world.history.producer_ids.append(exchange.answer.producer_id)
        elif exchange.answer.error_code != FAILED and not client.life.explains(exchange.answer.error_code):
            world.complain(f"{client!r}: InitProducerId was answered {exchange.answer.error_code}")

    return Ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000), 4, on_answer)


def commit(world, client, act, stream, *, group=None, member=(-1, "")):
    """Commit an offset that no commit of this group had before."""
    group = group or client.name
    register = world.history.commits[group, act.partition]
    offset = len(register.sent)
    number = register.send(offset)
    partition = OffsetCommitRequest.OffsetCommitRequestPartition(
        partition_index=act.partition, committed_offset=offset, committed_metadata=None
    )
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=member[0],
        member_id=member[1],
        topics=[OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
    )

    def on_answer(exchange):
        ((answer,),) = (topic.partitions for topic in exchange.answer.topics)
        if answer.error_code == ErrorCode.NONE:
            register.acknowledge(number)
        elif answer.error_code not in GROUP_ERRORS and not client.life.explains(answer.error_code):
            world.complain(f"{client!r}: a commit was answered {ErrorCode(answer.error_code).name}")

    return Ask(request, 8, on_answer)


GROUP_ERRORS = frozenset(
    {FAILED, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION}
)
"""What members are told when a connection or a broker was lost in between."""


def committed(world, client, act, stream, *, group=None):
    """The committed offset: the last acknowledged commit, or a later one."""
    group = group or client.name
    register = world.history.commits[group, act.partition]
    not_before = register.acknowledged
    topic = OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[act.partition])

    def on_answer(exchange):
        if exchange.answer.error_code == FAILED or client.life.explains(exchange.answer.error_code):
            return
        ((answer,),) = (found.partitions for found in exchange.answer.topics)
        oldest = not_before if client.life.is_latest else 0
        if answer.error_code or not register.may_be(answer.committed_offset, oldest):
            world.complain(
                f"{client!r}: of {group} {answer} is committed, sent were {register.sent} from {not_before} on"
            )

    return Ask(OffsetFetchRequest(group_id=group, topics=[topic]), 7, on_answer)


ASKS = {
    "produce": produce,
    "sequenced": sequenced,
    "fetch": fetch,
    "list offsets": list_offsets,
    "metadata": metadata,
    "versions": versions,
    "producer id": producer_id,
    "commit": commit,
    "committed": committed,
}
