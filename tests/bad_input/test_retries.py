"""Producers whose connection broke at the worst moment: what is there twice, what is missing, and who may say so.

An idempotent producer that got no answer sends its batch again; a network may also bring an old request back long after
it was answered.
"""

import struct

import attrs
import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.messages.data.list_offsets import ListOffsetsRequest
from pipeline_broker.wire.messages.transactions.init_producer_id import InitProducerIdRequest
from tests.bad_input.conftest import PRODUCE_VERSION, TOPIC
from tests.bad_input.raw_client import (
    RawClient,
    answer_of,
    batch_of,
    create_topic,
    frame_of,
    produce_request,
    wait_until,
)

LATEST = -1
BATCHES_REMEMBERED = 5


@attrs.define
class IdempotentProducer:
    """Knows its id and its next sequence number; a batch that it made stays as it is when it is sent again."""

    port: int
    id: int
    epoch: int = 0
    sequence: int = 0

    @classmethod
    def begin(cls, port):
        with RawClient(port) as client:
            answer = client.ask(InitProducerIdRequest(transactional_id=None), 4)
        assert answer.error_code == 0
        return cls(port, answer.producer_id)

    def next_frame(self, *values, topic=TOPIC):
        batch = batch_of(*values, producer_id=self.id, producer_epoch=self.epoch, base_sequence=self.sequence)
        self.sequence += len(values)
        return frame_of(produce_request((1, batch), topic=topic), PRODUCE_VERSION)


def ask_alone(port, frame):
    """The answer on a connection of its own."""
    with RawClient(port) as client:
        return client.ask_raw(frame)


def answer_to(port, frame):
    """Error code and base offset that a produce request gets on a connection of its own."""
    return read_answer(ask_alone(port, frame))


def read_answer(data):
    response = answer_of(produce_request(), PRODUCE_VERSION, data)
    (answer,) = response.responses[0].partition_responses
    return answer.error_code, answer.base_offset


def log_end(port, topic=TOPIC):
    partition = ListOffsetsRequest.ListOffsetsPartition(1, -1, LATEST)
    with RawClient(port) as client:
        answer = client.ask(ListOffsetsRequest(topics=[ListOffsetsRequest.ListOffsetsTopic(topic, [partition])]), 5)
    (found,) = answer.topics[0].partitions
    assert found.error_code == 0
    return found.offset


def send_and_reset(port, frame, size=None):
    """Send a frame, or its first bytes, and reset the connection without reading an answer."""
    client = RawClient(port)
    client.send((struct.pack(">i", len(frame)) + frame)[:size])
    client.reset_when_closed()
    return client


def appended_without_an_answer(port, frame, topic=TOPIC):
    """Send a frame, see its append, and reset the connection with the answer unread."""
    before = log_end(port, topic)
    client = send_and_reset(port, frame)
    wait_until(lambda: log_end(port, topic) > before, "it was not appended")
    client.socket.close()
    return before


def test_a_produce_request_that_is_reset_at_any_byte_is_there_whole_or_not_at_all(broker):
    """Case 43: of a batch of three records there are none or three; sent again it is there once, in its place."""
    producer = IdempotentProducer.begin(broker.port)
    size = 4 + len(producer.next_frame(b"one", b"two", b"three"))
    producer.sequence = 0
    for cut in range(size + 1):
        frame = producer.next_frame(b"one", b"two", b"three")
        before = log_end(broker.port)
        send_and_reset(broker.port, frame, cut).socket.close()
        assert answer_to(broker.port, frame) == (0, before)
        assert log_end(broker.port) == before + 3


def test_an_answer_that_was_lost_is_given_again_and_nothing_is_appended(broker):
    """Case 44: the connection is reset between append and answer; the retry gets the offset of the first attempt."""
    producer = IdempotentProducer.begin(broker.port)
    for number in range(3):
        frame = producer.next_frame(b"once %d" % number)
        offset = appended_without_an_answer(broker.port, frame)
        assert [answer_to(broker.port, frame) for _ in range(2)] == [(0, offset)] * 2
        assert log_end(broker.port) == offset + 1


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_an_answer_that_was_lost_is_given_again_by_a_broker_that_was_killed(broker_process, mode):
    """Case 45: what the log knows of the producer comes back with the log."""
    broker = broker_process(mode=mode, settings=["num.partitions=2"])
    create_topic(broker.port, "lost")
    producer = IdempotentProducer.begin(broker.port)
    assert answer_to(broker.port, producer.next_frame(b"first", topic="lost")) == (0, 0)
    frame = producer.next_frame(b"second", topic="lost")
    assert appended_without_an_answer(broker.port, frame, "lost") == 1
    broker.kill()
    broker = broker_process(mode=mode)
    assert answer_to(broker.port, frame) == (0, 1)
    assert log_end(broker.port, "lost") == 2
    assert answer_to(broker.port, producer.next_frame(b"third", topic="lost")) == (0, 2)
    broker.stop()


def test_a_request_that_comes_back_late_appends_nothing(broker):
    """Case 54: byte for byte, correlation id included, on the same connection and on another one."""
    producer = IdempotentProducer.begin(broker.port)
    with RawClient(broker.port) as client:
        frames = [producer.next_frame(b"%d" % number) for number in range(BATCHES_REMEMBERED + 1)]
        answers = [read_answer(client.ask_raw(frame)) for frame in frames]
        assert [code for code, _ in answers] == [0] * len(frames)
        end = log_end(broker.port)
        too_late = (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        for ask in (client.ask_raw, lambda frame: ask_alone(broker.port, frame)):
            assert [read_answer(ask(frame)) for frame in frames] == [too_late, *answers[1:]]
    assert log_end(broker.port) == end


def test_a_request_of_an_old_epoch_that_comes_back_is_refused(broker):
    """Case 54: once the producer went on with a new epoch, even what would be its next sequence number."""
    producer = IdempotentProducer.begin(broker.port)
    first = producer.next_frame(b"old")
    assert answer_to(broker.port, first)[0] == 0
    late = producer.next_frame(b"late")
    producer.epoch, producer.sequence = 1, 0
    assert answer_to(broker.port, producer.next_frame(b"new"))[0] == 0
    end = log_end(broker.port)
    for frame in (first, late):
        assert answer_to(broker.port, frame) == (ErrorCode.INVALID_PRODUCER_EPOCH, -1)
    assert log_end(broker.port) == end
