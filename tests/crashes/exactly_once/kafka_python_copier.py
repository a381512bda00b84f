"""Copies with kafka-python, as a member of the group.

The generation that it commits with is that of its assignment: its thread for heartbeats gives up the generation of a
member that has been put out, and a broker takes an offset that comes without one. It ends, for kafka-python 3.0.12,

- where it has long been without partitions: when metadata change while it joins, it may take no notice of what it is
  given, and send nothing more
- where its offsets are refused: those of an aborted transaction are kept (`_pending_txn_offset_commits` of its
  transaction manager) and sent along with the next one, whose records are others
- where it has missed a generation: it keeps the position of a partition that it had before and is given again
  (`assign_from_subscribed`), unless it knew when it began to join that it had been put out
"""

import time

import kafka
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.errors import KafkaError

from tests.crashes.exactly_once.copier import (
    BACKOFF_MS,
    BACKOFF_MS_MAX,
    BATCH_MAX,
    GROUP,
    HEARTBEAT_INTERVAL_MS,
    INPUT,
    OUTPUT,
    POLL_INTERVAL_MS_MAX,
    POLL_SECONDS,
    SESSION_TIMEOUT_MS,
    STEP_SECONDS_MAX,
    TRANSACTION_TIMEOUT_MS,
    Abortable,
    Copied,
    main,
)

CONNECTION = {
    "reconnect_backoff_ms": BACKOFF_MS,
    "reconnect_backoff_max_ms": BACKOFF_MS_MAX,
    "retry_backoff_ms": BACKOFF_MS,
}
REQUEST_TIMEOUT_MS = 1500
"""The producer waits so long in vain for a connection on which a broker went: of 30 s it would soon have none left."""

UNASSIGNED_SECONDS_MAX = 6


class KafkaPythonClient(kafka.ConsumerRebalanceListener):
    """A producer that has fenced whoever was here before, and only then a consumer."""

    def __init__(self, bootstrap):
        common = {"bootstrap_servers": bootstrap, **CONNECTION}
        self._producer = kafka.KafkaProducer(
            **common,
            transactional_id="copier-kafka-python",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            max_block_ms=STEP_SECONDS_MAX * 1000,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        self._producer.init_transactions()
        self._consumer = kafka.KafkaConsumer(
            **common,
            group_id=GROUP,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            partition_assignment_strategy=[RangePartitionAssignor],
            session_timeout_ms=SESSION_TIMEOUT_MS,
            heartbeat_interval_ms=HEARTBEAT_INTERVAL_MS,
            max_poll_interval_ms=POLL_INTERVAL_MS_MAX,
            max_poll_records=BATCH_MAX,
        )
        self._rebalanced = False
        self._futures = []
        self._membership = None
        self._missed_generations = False
        self._had_partitions_at = time.monotonic()
        self._consumer.subscribe([INPUT], listener=self)

    def on_partitions_assigned(self, assigned):
        """Called within a poll."""
        self._rebalanced = True
        before, self._membership = self._membership, self._consumer.group_metadata()
        follows = before is None or (before.member_id, before.generation_id + 1) == (
            self._membership.member_id,
            self._membership.generation_id,
        )
        self._missed_generations = self._missed_generations or not follows

    def on_partitions_revoked(self, revoked):
        """Called within a poll."""
        self._rebalanced = True

    def take_rebalanced(self):
        """Whether partitions came or went since the last time."""
        rebalanced, self._rebalanced = self._rebalanced, False
        return rebalanced

    def poll(self):
        """The next records; raises KafkaError where it has long been without partitions, or missed a generation."""
        if self._consumer.assignment():
            self._had_partitions_at = time.monotonic()
        elif time.monotonic() > self._had_partitions_at + UNASSIGNED_SECONDS_MAX:
            raise KafkaError(f"no partitions for {UNASSIGNED_SECONDS_MAX} s")
        found = self._consumer.poll(timeout_ms=int(POLL_SECONDS * 1000))
        if self._missed_generations:
            raise KafkaError("others may have had what it has")
        return [Copied(it.partition, it.offset, it.value.decode()) for records in found.values() for it in records]

    def begin(self):
        """A transaction."""
        self._futures = []
        self._step(self._producer.begin_transaction)

    def send(self, topic, partition, value):
        """A record within it."""
        self._futures.append(self._step(self._producer.send, topic, value, partition=partition))

    def flush(self):
        """What was sent is there, or the transaction is over."""
        self._producer.flush(STEP_SECONDS_MAX)
        for future in self._futures:
            self._step(future.get, STEP_SECONDS_MAX)

    def send_offsets(self, ends):
        """How far the input is read: partition -> offset."""
        positions = {
            kafka.TopicPartition(INPUT, index): kafka.structs.OffsetAndMetadata(end) for index, end in ends.items()
        }
        self._producer.send_offsets_to_transaction(positions, self._membership)
        self.flush()

    def commit(self):
        """Gives the offsets of what was sent."""
        self._step(self._producer.commit_transaction)
        return [future.value.offset for future in self._futures]

    def abort(self):
        """Undo it; what is fatal raises here."""
        self._producer.abort_transaction()

    def rewind(self, starts):
        """Read on where an aborted transaction began: partition -> offset."""
        mine = self._consumer.assignment()
        for index, start in starts.items():
            if (partition := kafka.TopicPartition(INPUT, index)) in mine:
                self._consumer.seek(partition, start)

    @staticmethod
    def _step(call, *arguments, **options):
        try:
            return call(*arguments, **options)
        except KafkaError as error:
            raise Abortable(repr(error)) from error


if __name__ == "__main__":
    main(KafkaPythonClient, OUTPUT)
