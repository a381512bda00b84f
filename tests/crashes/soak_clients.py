"""The clients of a soak: paced, so that a machine bears them for hours, and each with its own part of the data.

Rules of this file: a client's `drive` is that of `producers.py`; what a client did is in KeptPartitions and in the
History. A partition has one writer. What the reader sees counts as acknowledged: it was visible, so it must stay.
"""

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from tests.crashes.clerk import Clerk
from tests.crashes.history import TopicFate
from tests.crashes.kept import NUMBER_HEADER, KeptPartition
from tests.crashes.kept_client import delete_records, record_of, start_of
from tests.crashes.producers import answers_of, new_producer_id, produce_request
from tests.crashes.wire_client import fetch_request

PAUSE_SECONDS = 0.1
BURST = 8
VALUE_BYTES_MAX = 8_000
KEYS = 200
TOMBSTONE_SHARE = 0.05
DELETE_SHARE = 0.1
KEPT_OFFSETS = 40
TIMEOUT_MS = 10_000
LONG_POLL_MS = 100


class Paced:
    """Something every tenth of a second."""

    kind = ""
    pause_seconds = PAUSE_SECONDS

    def drive(self, client, stopping):
        while not stopping.is_set():
            self.turn(client)
            stopping.wait(self.pause_seconds)

    def turn(self, client):
        raise NotImplementedError


class Writer(Paced):
    """Bursts of records to its partitions in turn; the requests of a burst are all in flight."""

    kind = "writer"

    def __init__(self, random, topic_ids, kept, clock_ms):
        self.random, self.topic_ids, self.kept, self.clock_ms = random, topic_ids, kept, clock_ms

    def turn(self, client):
        one = self.random.choice(self.kept)
        numbers = []
        for _ in range(BURST):
            number, batch = record_of(one, *self.draw(), self.clock_ms())
            client.send(produce_request(self.topic_ids, {(one.topic, one.index): batch}))
            numbers.append(number)
        for number in numbers:
            answer = answers_of(client.receive(), self.topic_ids)[one.topic, one.index]
            assert answer.error_code == ErrorCode.NONE, f"{one}: record {number} got error {answer.error_code}"
            one.acknowledged[number] = answer.base_offset
        self.then(client, one, answer.base_offset + 1)

    def draw(self):
        """Key and value."""
        return None, self.random.randbytes(self.random.randrange(VALUE_BYTES_MAX))

    def then(self, client, one, end):
        """What follows a burst that ended there."""


class KeysWriter(Writer):
    """Overwrites and deletes keys."""

    kind = "keys"

    def draw(self):
        key = b"%d" % self.random.randrange(KEYS)
        if self.random.random() < TOMBSTONE_SHARE:
            return key, None
        return key, self.random.randbytes(self.random.randrange(VALUE_BYTES_MAX))


class CutWriter(Writer):
    """Deletes old records itself."""

    kind = "cut"

    def then(self, client, one, end):
        if self.random.random() < DELETE_SHARE and end > KEPT_OFFSETS:
            delete_records(client, one, end - KEPT_OFFSETS)


class Turner(Paced):
    """Topics that come and go, ids of producers, offsets: what a clerk does, without an end."""

    kind = "turner"

    def __init__(self, history, random, topic_ids, clock_ms):
        self.history, self.random, self.topic_ids, self.clock_ms = history, random, topic_ids, clock_ms
        self._clerk = Clerk(history, random, topic_ids)
        self._count = 0

    def turn(self, client):
        new_producer_id(client, self.history)
        self._clerk._commit(client)
        self._count += 1
        name = f"turned-{self._count}"
        fate = self.history.topics[name] = TopicFate(2)
        topic = CreateTopicsRequest.CreatableTopic(name, fate.partitions, 1)
        (created,) = client.ask(CreateTopicsRequest([topic], timeout_ms=TIMEOUT_MS)).topics
        assert created.error_code == ErrorCode.NONE, f"creating {name} got error {created.error_code}"
        fate.topic_id, fate.created = created.topic_id, True
        _, batch = record_of(KeptPartition(name, 0), None, b"value", self.clock_ms())
        answer = client.ask(produce_request({name: created.topic_id}, {(name, 0): batch}))
        code = answers_of(answer, {name: created.topic_id})[name, 0].error_code
        assert code == ErrorCode.NONE, f"writing to {name} got error {code}"
        fate.deletion_sent = True
        request = DeleteTopicsRequest([DeleteTopicsRequest.DeleteTopicState(name=name)], timeout_ms=TIMEOUT_MS)
        (deleted,) = client.ask(request).responses
        assert deleted.error_code == ErrorCode.NONE, f"deleting {name} got error {deleted.error_code}"
        fate.deleted = True


class Follower(Paced):
    """Reads what comes, and begins at the start again where it was overtaken."""

    kind = "follower"
    pause_seconds = 0.0

    def __init__(self, topic_ids, kept):
        self.topic_ids, self.kept = topic_ids, kept
        self._next = {(one.topic, one.index): 0 for one in kept}
        self._turn = 0

    def turn(self, client):
        self._turn += 1
        one = self.kept[self._turn % len(self.kept)]
        partition = one.topic, one.index
        offset = self._next[partition]
        answer = client.ask(fetch_request(self.topic_ids[one.topic], one.index, offset, wait_ms=LONG_POLL_MS))
        (data,) = answer.responses[0].partitions
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            start = start_of(client, one)
            assert start > offset, f"{one}: offset {offset} is out of range, and the log starts at {start}"
            self._next[partition] = start
            return
        assert data.error_code == ErrorCode.NONE, f"{one}: Fetch from {offset} got error {data.error_code}"
        for header, batch in iterate_batches(data.records or b""):
            for record in iterate_records(batch, header):
                if record.offset >= offset:
                    one.acknowledged.setdefault(int(dict(record.headers)[NUMBER_HEADER]), record.offset)
            self._next[partition] = header.last_offset + 1
