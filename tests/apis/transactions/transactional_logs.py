"""Transactions in the logs of a desk's broker, without a coordinator, for tests of readers."""

from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.transactions.write_txn_markers import WriteTxnMarkersRequest
from tests import transactional_batches
from tests.apis.desk import Desk

PRODUCER, OTHER = 7, 8
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
Marker = WriteTxnMarkersRequest.WritableTxnMarker
MarkerTopic = WriteTxnMarkersRequest.WritableTxnMarkerTopic


class TransactionDesk(Desk):
    """A desk with a topic of two partitions."""

    def with_topic(self, **settings):
        configs = [CreateTopicsRequest.CreatableTopicConfig(name, value) for name, value in settings.items()]
        self.ask(CreateTopicsRequest(topics=[CreateTopicsRequest.CreatableTopic("t", 2, 1, configs=configs)]), 7)
        self.sequences = {}
        return self

    @property
    def log(self):
        return self.broker.logs.find("t", 0)

    def write(self, producer=PRODUCER, count=1, *, epoch=0, is_durable=True, size=1):
        """Append a batch to the producer's transaction; return the entry."""
        sequence = self.sequences.get((producer, epoch), 0)
        self.sequences[producer, epoch] = sequence + count
        batch = build_batch(
            [NewRecord(b"v" * size, b"key", self.now_ms)] * count,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=True,
        )
        entry = transactional_batches.produce(self.log, batch, self.now_ms).entry
        if is_durable:
            self.commit([entry])
        return entry

    def write_outside(self, *, timestamp=None):
        batch = build_batch([NewRecord(b"plain", b"key", self.now_ms if timestamp is None else timestamp)])
        self.commit([self.log.produce(batch, self.now_ms).entry])

    def markers(self, *markers, version=2):
        """Return the error codes by producer, topic and partition."""
        response = self.ask(WriteTxnMarkersRequest(list(markers)), version)
        return {
            (marker.producer_id, topic.name, partition.partition_index): partition.error_code
            for marker in response.markers
            for topic in marker.topics
            for partition in topic.partitions
        }

    def end(self, producer=PRODUCER, *, epoch=0, committed=True, version=2):
        marker = Marker(producer, epoch, committed, [MarkerTopic("t", [0])], 0)
        assert self.markers(marker, version=version) == {(producer, "t", 0): 0}

    def fetch_request(self, offset=0, isolation_level=READ_COMMITTED, **more):
        wanted = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        defaults = {"max_wait_ms": 0, "max_bytes": 1 << 20, "min_bytes": 1, "session_epoch": -1}
        return FetchRequest(
            isolation_level=isolation_level,
            topics=[FetchRequest.FetchTopic("t", partitions=[wanted])],
            **defaults | more,
        )

    def fetch(self, offset=0, isolation_level=READ_COMMITTED, **more):
        (topic,) = self.ask(self.fetch_request(offset, isolation_level, **more), 12).responses
        (partition,) = topic.partitions
        return partition
