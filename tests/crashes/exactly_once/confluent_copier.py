"""Copies with confluent-kafka, as a member of the group.

The generation that it commits with is that of its assignment: were it asked for later, librdkafka would give none once
the member has been put out, and a broker takes an offset that comes without one.

It asks for the offsets of its partitions itself: librdkafka 2.16 reads from the start, whatever is committed, where it
is given partitions anew while it waits for offsets that an open transaction may change. The older request's answer,
UNSTABLE_OFFSET_COMMIT, then counts as "nothing is committed" (`rd_kafka_assignment_apply_offsets`), with Apache Kafka
just as here.
"""

import confluent_kafka

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
    "reconnect.backoff.ms": BACKOFF_MS,
    "reconnect.backoff.max.ms": BACKOFF_MS_MAX,
    "retry.backoff.ms": BACKOFF_MS,
    "log_level": 0,
}


class ConfluentClient:
    """A producer that has fenced whoever was here before, and only then a consumer."""

    def __init__(self, bootstrap):
        common = {"bootstrap.servers": bootstrap, **CONNECTION}
        self._producer = confluent_kafka.Producer(
            {
                **common,
                "transactional.id": "copier-confluent",
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 0,
            }
        )
        self._producer.init_transactions(STEP_SECONDS_MAX)
        self._consumer = confluent_kafka.Consumer(
            {
                **common,
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 50,
                "partition.assignment.strategy": "range",
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_INTERVAL_MS,
                "max.poll.interval.ms": POLL_INTERVAL_MS_MAX,
            }
        )
        self._rebalanced = False
        self._polled = []
        self._offsets = []
        self._membership = None
        self._consumer.subscribe([INPUT], on_assign=self._assigned, on_revoke=self._revoked)

    def _assigned(self, consumer, partitions):
        self._rebalanced = True
        self._membership = consumer.consumer_group_metadata()
        positions = consumer.committed(partitions, STEP_SECONDS_MAX)
        for position in positions:
            if position.error is not None:
                raise confluent_kafka.KafkaException(position.error)
            if position.offset == confluent_kafka.OFFSET_INVALID:
                position.offset = confluent_kafka.OFFSET_BEGINNING
        consumer.assign(positions)

    def _revoked(self, _, partitions):
        self._rebalanced = True
        gone = {it.partition for it in partitions}
        self._polled = [it for it in self._polled if it.partition not in gone]

    def take_rebalanced(self):
        """Whether partitions came or went since the last time."""
        rebalanced, self._rebalanced = self._rebalanced, False
        return rebalanced

    def poll(self):
        """The next records, one at a time: what was polled of a partition that goes meanwhile is dropped."""
        self._polled = []
        for number in range(BATCH_MAX):
            message = self._consumer.poll(0 if number else POLL_SECONDS)
            if message is None:
                break
            if message.error() is None:
                self._polled.append(Copied(message.partition(), message.offset(), message.value().decode()))
        return self._polled

    def begin(self):
        """A transaction."""
        self._offsets = []
        self._step(self._producer.begin_transaction)

    def send(self, topic, partition, value):
        """A record within it."""
        self._producer.produce(topic, value, None, partition, on_delivery=self._note(len(self._offsets)))
        self._offsets.append(None)

    def _note(self, index):
        offsets = self._offsets

        def note(error, message):
            offsets[index] = None if error else message.offset()

        return note

    def flush(self):
        """What was sent is there, or will never be."""
        self._producer.flush(STEP_SECONDS_MAX)

    def send_offsets(self, ends):
        """How far the input is read: partition -> offset."""
        positions = [confluent_kafka.TopicPartition(INPUT, index, end) for index, end in ends.items()]
        self._step(self._producer.send_offsets_to_transaction, positions, self._membership, STEP_SECONDS_MAX)

    def commit(self):
        """Gives the offsets of what was sent."""
        self._step(self._producer.commit_transaction, STEP_SECONDS_MAX)
        return self._offsets

    def abort(self):
        """Undo it."""
        self._producer.abort_transaction(STEP_SECONDS_MAX)

    def rewind(self, starts):
        """Read on where an aborted transaction began: partition -> offset."""
        mine = {it.partition for it in self._consumer.assignment()}
        for index, start in starts.items():
            if index in mine:
                self._consumer.seek(confluent_kafka.TopicPartition(INPUT, index, start))

    @staticmethod
    def _step(call, *arguments):
        try:
            call(*arguments)
        except confluent_kafka.KafkaException as error:
            if error.args[0].txn_requires_abort():
                raise Abortable(str(error)) from error
            raise


if __name__ == "__main__":
    main(ConfluentClient, OUTPUT)
