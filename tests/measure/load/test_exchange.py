"""The bytes of a connection: windows stay full, and answers are counted wherever reads split them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.client.errors import ClientError
from pipeline_broker.measure.load.exchange import Exchange
from pipeline_broker.measure.load.pace import ClosedPace, OpenPace
from pipeline_broker.measure.load.recorders import RowRecorder
from pipeline_broker.measure.load.requests import ProduceInTurn, ProduceTemplate

ERROR_POSITION = 20
NEVER_NS = 1 << 60


def answer(correlation_id, error=0, size=40):
    return struct.pack(">ii", size - 4, correlation_id) + bytes(12) + struct.pack(">h", error) + bytes(size - 22)


def frames(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


def template(partitions=3):
    requests = tuple(struct.pack(">ihhi", 12, 0, 9, 0) + bytes([index, index, index, 0]) for index in range(partitions))
    return ProduceTemplate(requests, ERROR_POSITION)


def closed(in_flight, partitions=3, first=0):
    source = ProduceInTurn(template(partitions), in_flight, first)
    return Exchange(source, ClosedPace(in_flight, NEVER_NS), RowRecorder(is_open=False))


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 4), st.data())
def test_the_window_is_kept_full_over_all_partitions_in_turn(in_flight, partitions, first, draw):
    exchange = closed(in_flight, partitions, first)
    outstanding, sent = [], 0
    for now_ns in range(draw.draw(st.integers(1, 8))):
        for frame in frames(exchange.send(now_ns), 16):
            (correlation_id,) = struct.unpack_from(">i", frame, 8)
            assert correlation_id == sent, "ids count up from 0"
            assert frame[12] == (sent + first) % partitions
            outstanding.append(correlation_id)
            sent += 1
        assert exchange.in_flight == len(outstanding) == in_flight
        assert exchange.send(now_ns) == b"", "a full window sends nothing"
        answered = draw.draw(st.integers(0, len(outstanding)))
        assert exchange.receive(b"".join(map(answer, outstanding[:answered])), now_ns) == answered
        del outstanding[:answered]
    assert len(exchange.recorder.sent_ns) == sent
    assert exchange.recorder.received == list(range(sent - len(outstanding)))
    assert exchange.sent_bytes == 16 * sent
    assert exchange.received_bytes == 40 * (sent - len(outstanding))


ANSWERS = st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 133), st.integers(22, 60)), max_size=10)


@given(ANSWERS, st.booleans(), st.data())
def test_answers_are_parsed_wherever_reads_split_them(answers, is_read_one_by_one, draw):
    exchange = closed(10)
    if is_read_one_by_one:
        exchange._read = lambda _, response: struct.unpack_from(">h", response, ERROR_POSITION)[0]
    exchange.send(5)
    data = b"".join(answer(*each) for each in answers)
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        exchange.receive(data[start:end], 7)
    recorder = exchange.recorder
    assert list(zip(recorder.received, recorder.errors, strict=True)) == [(each[0], each[1]) for each in answers]
    assert recorder.answered_ns == [7] * len(answers)


@pytest.mark.parametrize("is_read_one_by_one", [False, True])
@pytest.mark.parametrize("raw", [answer(64), answer(-1), struct.pack(">ii", 3, 0) + bytes(40), b"\x7f" * 40])
def test_answers_to_unsent_requests_are_refused(raw, is_read_one_by_one):
    exchange = closed(4)
    if is_read_one_by_one:
        exchange._read = lambda *_: 0
    exchange.send(0)
    with pytest.raises(ClientError):
        exchange.receive(raw, 0)


def test_more_answers_than_requests_are_refused():
    exchange = closed(1)
    exchange.send(0)
    with pytest.raises(ClientError, match="more answers"):
        exchange.receive(answer(0) * 2, 0)


def test_requests_without_answers_are_never_in_flight():
    pace = OpenPace([1, 2, 3], window=1)
    exchange = Exchange(ProduceInTurn(template(), 3), pace, RowRecorder(is_open=True), is_answered=False)
    assert len(frames(exchange.send(5), 16)) == 1, "one at a time through a window of one"
    assert len(frames(exchange.send(5) + exchange.send(5), 16)) == 2
    assert exchange.in_flight == 0
    assert exchange.is_done(5)


def test_a_long_answer_in_many_reads_is_joined_once():
    """An incomplete answer is not parsed again at each read, so reading stays linear."""
    exchange, joined = closed(1), []
    exchange._read = lambda _, response: joined.append(len(response)) or 0
    exchange.send(0)
    size = 8 << 20
    data = struct.pack(">ii", size, 0) + bytes(size - 4)
    for start in range(0, len(data), 1 << 16):
        exchange.receive(data[start : start + (1 << 16)], 1)
    assert joined == [size + 4]
    assert exchange.in_flight == 0


@pytest.mark.parametrize("is_read_one_by_one", [False, True])
def test_an_answer_is_counted_once_it_is_complete_even_after_a_longer_one(is_read_one_by_one):
    """The number of bytes that the longer answer needed must not delay the next one."""
    exchange = closed(2)
    if is_read_one_by_one:
        exchange._read = lambda *_: 0
    exchange.send(0)
    data = answer(0, size=200) + answer(1, size=40)
    ends = [100, 204, 240]
    assert [exchange.receive(data[a:b], b) for a, b in zip([0, *ends[:-1]], ends, strict=True)] == [0, 1, 1]
    assert exchange.recorder.answered_ns == [204, 240]
