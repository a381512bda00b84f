"""Clients that produce until their connection breaks, and note what they send and what they are told.

Rules of this file: a producer's `drive` owns one connection and returns when it has stopped and nothing is in flight;
it never recovers from anything by itself: that a connection broke is for the caller to know. What a plain producer did
not hear of is not sent again; the idempotent ones send it again, with the same sequences, before anything else.
"""

import collections
import logging
import threading
import time

import confluent_kafka

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.wire.messages.data.produce import ProduceRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from pipeline_broker.wire.registry import ApiKey

PRODUCE_VERSIONS = SERVED[ApiKey.PRODUCE].versions
TOPIC_ID_FROM = 13
WINDOW_OF_IDEMPOTENCE = 5
CODECS = (0, 0, 0, 1)  # those that every client used here can read
RECORDS_PER_BATCH_MAX = 4
CONFLUENT_QUEUE_MAX = 40
FLUSH_SECONDS_MAX = 30.0
REFUSED_SECONDS = 0.1
QUICK_TO_RETURN = {"reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50, "retry.backoff.ms": 20}
"""Settings of librdkafka with which it finds brokers that are back."""
BEGAN_MS = time.time_ns() // 1_000_000
"""Records of today: older ones would go by retention as soon as they are archived."""


def draw_filler(random):
    """Mostly small, now and then too large for one read of a socket."""
    size = random.randrange(200_000) if random.random() < 0.01 else random.randrange(300)
    return random.randbytes(size)


def draw_records(random, stream):
    """The numbers of a few new values of the stream, and the records that hold them."""
    drawn = [stream.draw(draw_filler(random)) for _ in range(random.randint(1, RECORDS_PER_BATCH_MAX))]
    return [number for number, _ in drawn], [NewRecord(value, timestamp=BEGAN_MS + number) for number, value in drawn]


def produce_request(topic_ids, batches, acks=-1):
    """One request for batches by partition, (topic, index)."""
    by_topic = collections.defaultdict(list)
    for (topic, index), batch in batches.items():
        by_topic[topic].append(ProduceRequest.PartitionProduceData(index=index, records=batch))
    data = [
        ProduceRequest.TopicProduceData(name=topic, topic_id=topic_ids[topic], partition_data=partitions)
        for topic, partitions in by_topic.items()
    ]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=data)


def answers_of(response, topic_ids):
    """Partition -> its part of the answer."""
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    return {
        (topic.name or names[topic.topic_id], data.index): data
        for topic in response.responses
        for data in topic.partition_responses
    }


class Producer:
    """What the two producers of our own share: what is taken from an answer."""

    kind = ""

    def __init__(self, history, random, topic_ids, partitions):
        self.history = history
        self.random = random
        self.topic_ids = topic_ids
        self.partitions = partitions
        self.version = random.choice(PRODUCE_VERSIONS)

    def take(self, response, sent):
        """`sent`: partition -> (stream, numbers)."""
        answers = answers_of(response, self.topic_ids)
        for partition, (stream, numbers) in sent.items():
            answer = answers[partition]
            if answer.error_code:
                self.history.complaints.append(f"{stream}: values {numbers} got error {answer.error_code}")
                stream.refused.update(numbers)
                continue
            for place, number in enumerate(numbers):
                stream.acknowledged[number] = answer.base_offset + place


class PlainProducer(Producer):
    """Many requests in flight, each for several partitions."""

    kind = "plain"

    def __init__(self, history, random, topic_ids, partitions):
        super().__init__(history, random, topic_ids, partitions)
        self.window = random.choice((1, 5, 20, 80))

    def drive(self, client, stopping):
        streams = {partition: self.history.stream(self.kind, partition) for partition in self.partitions}
        pending = collections.deque()
        while True:
            while client.in_flight < self.window and not stopping.is_set():
                sent, batches = self._draw(streams)
                pending.append(sent)
                acks = self.random.choice((-1, -1, 1))
                client.send(produce_request(self.topic_ids, batches, acks), self.version)
            if not pending:
                return
            self.take(client.receive(), pending.popleft())

    def _draw(self, streams):
        sent, batches = {}, {}
        for partition in self.random.sample(self.partitions, self.random.choice((1, 1, 1, 2, 3))):
            numbers, records = draw_records(self.random, streams[partition])
            sent[partition] = streams[partition], numbers
            batches[partition] = build_batch(records, compression=self.random.choice(CODECS))
        return sent, batches


class IdempotentProducer(Producer):
    """Five batches in flight; those without an answer are sent again on the next connection.

    Those that are refused because the storage cannot be written, and what follows them in their partitions, are sent
    again when all else is answered.
    """

    kind = "idempotent"

    def __init__(self, history, random, topic_ids, partitions):
        super().__init__(history, random, topic_ids, partitions)
        self._streams = {partition: history.stream(self.kind, partition) for partition in partitions}
        self._producer_id = None
        self._unanswered = collections.deque()
        self._refused = []

    def drive(self, client, stopping):
        if self._producer_id is None:
            self._producer_id = new_producer_id(client, self.history)
        self._send_again(client)
        while True:
            while client.in_flight < WINDOW_OF_IDEMPOTENCE and not self._refused and not stopping.is_set():
                self._send_next(client)
            if not self._unanswered and not self._refused:
                return
            if not self._unanswered:
                time.sleep(REFUSED_SECONDS)
                self._send_again(client)
            self._receive(client)

    def _send_next(self, client):
        partition = self.random.choice(self.partitions)
        numbers, records = draw_records(self.random, self._streams[partition])
        batch = build_batch(records, producer_id=self._producer_id, producer_epoch=0, base_sequence=numbers[0])
        self._unanswered.append((partition, numbers, batch))
        self._send(client, partition, numbers, batch)

    def _send_again(self, client):
        """All that has no answer, or was refused, which came first."""
        self._unanswered.extendleft(reversed(self._refused))
        self._refused.clear()
        for partition, numbers, batch in self._unanswered:
            self._send(client, partition, numbers, batch)

    def _receive(self, client):
        response = client.receive()
        partition, numbers, batch = self._unanswered.popleft()
        code = answers_of(response, self.topic_ids)[partition].error_code
        follows = any(partition == refused for refused, _, _ in self._refused)
        if code == ErrorCode.KAFKA_STORAGE_ERROR or (follows and code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER):
            self.history.complaints.append(f"{self.kind}: error {ErrorCode.KAFKA_STORAGE_ERROR.value}")
            self._refused.append((partition, numbers, batch))
        else:
            self.take(response, {partition: (self._streams[partition], numbers)})

    def _send(self, client, partition, numbers, batch):
        del numbers
        client.send(produce_request(self.topic_ids, {partition: batch}), self.version)


def new_producer_id(client, history):
    """An id that no producer had before."""
    answer = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000))
    assert answer.error_code == 0, f"InitProducerId got error {answer.error_code}"
    history.producer_ids.append(answer.producer_id)
    return answer.producer_id


class ConfluentProducer:
    """librdkafka's idempotent producer, which lives through all the kills of a run and reconnects by itself."""

    kind = "confluent"

    def __init__(self, history, random, bootstrap, partitions):
        self.history = history
        self.random = random
        self.partitions = partitions
        self.active = threading.Event()
        self._streams = {partition: history.stream(self.kind, partition) for partition in partitions}
        self._ended = threading.Event()
        silent = logging.getLogger(f"{__name__}.confluent")
        silent.disabled = True  # it tells of every lost connection
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": random.choice((0, 2)),
                "message.timeout.ms": 300_000,
                **QUICK_TO_RETURN,
                "error_cb": lambda _: None,  # lost connections are what this is about; messages have reports
            },
            logger=silent,
        )
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self._work()
        except confluent_kafka.KafkaException as error:
            self.history.complaints.append(f"{self.kind}: {error}")

    def _work(self):
        while not self._ended.is_set():
            if self.active.is_set() and len(self._producer) < CONFLUENT_QUEUE_MAX:
                stream = self._streams[self.random.choice(self.partitions)]
                number, value = stream.draw(self.random.randbytes(self.random.randrange(300)))
                topic, index = stream.partition
                self._producer.produce(topic, value, partition=index, on_delivery=self._reporter(stream, number))
                self._producer.poll(0)
            else:
                self._producer.poll(0.005)

    def _reporter(self, stream, number):
        def report(error, message):
            if error is not None:
                self.history.complaints.append(f"{stream}: value {number} failed: {error}")
            else:
                stream.acknowledged[number] = message.offset()

        return report

    def finish(self):
        """Wait until everything is delivered."""
        self.end()
        if left := self._producer.flush(FLUSH_SECONDS_MAX):
            self.history.complaints.append(f"confluent: {left} messages were not delivered in {FLUSH_SECONDS_MAX} s")

    def end(self):
        """Stop producing and polling."""
        self._ended.set()
        self._thread.join()
