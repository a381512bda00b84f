"""What markers do to a partition, as Apache Kafka has it: epochs, fences, isolation; without a coordinator's part."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.transactions.describe_producers import DescribeProducersRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.messages.transactions.write_txn_markers import WriteTxnMarkersRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.comparison import drawn
from tests.differential.data_requests import Ask, ask, topic_id
from tests.differential.test_sequences import Story, produced, remember_producer

pytestmark = pytest.mark.xdist_group("kafka")
numbers = itertools.count()


def ended(name, version, epoch, coordinator_epoch, *, committed, transaction_version):
    """A marker of the producer that the side knows."""

    def build(side):
        topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name, [0])
        marker = WriteTxnMarkersRequest.WritableTxnMarker(
            side.told["producer_id"], epoch, committed, [topic], coordinator_epoch
        )
        if version >= 2:
            marker.transaction_version = transaction_version
        return WriteTxnMarkersRequest([marker])

    return Ask(version, build, text=f"marker of epoch {epoch} by coordinator {coordinator_epoch}")


def fetched(name, isolation_level, offset):
    def build(side):
        wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        return FetchRequest(
            max_wait_ms=0,
            max_bytes=1 << 20,
            session_epoch=-1,
            isolation_level=isolation_level,
            topics=[FetchRequest.FetchTopic(name, topic_id(side, name), [wanted])],
        )

    return Ask(17, build, text=f"fetch from {offset} with isolation {isolation_level}")


@drawn(6)
@given(data=st.data())
def test_markers_and_batches_of_a_producer_are_taken_and_refused_as_in_kafka(sides, data):
    """Batches that are not transactional, in and behind the epochs that markers set; then what readers see."""
    story, name = Story(sides, data.draw), f"markers-{next(numbers)}"
    created = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic(name, 1, 1)], 20_000)
    story.tell(ApiKey.CREATE_TOPICS, ask(story.version(ApiKey.CREATE_TOPICS), created, changes_topics=True))
    init = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    story.tell(ApiKey.INIT_PRODUCER_ID, ask(story.version(ApiKey.INIT_PRODUCER_ID), init), remember_producer)
    describe = DescribeProducersRequest([DescribeProducersRequest.TopicRequest(name, [0])])
    epochs = st.sampled_from([0, 0, 1, 1, 2])
    for _ in range(10):
        if data.draw(st.booleans()):
            batch = (data.draw(epochs), data.draw(st.integers(0, 3)), data.draw(st.integers(1, 2)))
            story.tell(ApiKey.PRODUCE, produced(name, data.draw(st.integers(3, 11)), batch))
        else:
            marker = ended(
                name,
                story.version(ApiKey.WRITE_TXN_MARKERS),
                data.draw(epochs),
                data.draw(st.integers(0, 2)),
                committed=data.draw(st.booleans()),
                transaction_version=data.draw(st.integers(0, 2)),
            )
            story.tell(ApiKey.WRITE_TXN_MARKERS, marker)
        story.tell(ApiKey.DESCRIBE_PRODUCERS, ask(0, describe))
        story.tell(ApiKey.FETCH, fetched(name, data.draw(st.integers(0, 1)), 0))
    for isolation in (0, 1):
        for at in (-1, -2):  # other times would be those of markers, which each broker has of its own
            partition = ListOffsetsRequest.ListOffsetsPartition(0, -1, at)
            asked = ListOffsetsRequest(-1, isolation, [ListOffsetsRequest.ListOffsetsTopic(name, [partition])])
            story.tell(ApiKey.LIST_OFFSETS, ask(data.draw(st.integers(2, 11)), asked))
    story.end()
