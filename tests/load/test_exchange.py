"""The bytes of a connection: windows stay full, answers are accounted for wherever a read cuts them."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.load.exchange import ClosedLoop, LoadError, OpenLoop, ProduceTemplate

ERROR_POSITION = 20


def answer(correlation_id, error=0, size=40):
    return struct.pack(">ii", size - 4, correlation_id) + bytes(12) + struct.pack(">h", error) + bytes(size - 22)


def frames(data, size):
    return [data[start : start + size] for start in range(0, len(data), size)]


def template(partitions=3):
    requests = tuple(struct.pack(">ihhi", 12, 0, 9, 0) + bytes([index, index, index, 0]) for index in range(partitions))
    return ProduceTemplate(requests, ERROR_POSITION)


@given(st.integers(1, 20), st.integers(1, 5), st.integers(0, 4), st.data())
def test_the_window_is_kept_full_over_all_partitions_in_turn(in_flight, partitions, first, draw):
    loop = ClosedLoop(template(partitions), in_flight, first)
    outstanding, sent = [], 0
    for now_ns in range(draw.draw(st.integers(1, 8))):
        for frame in frames(loop.refill(now_ns), 16):
            (correlation_id,) = struct.unpack_from(">i", frame, 8)
            assert correlation_id == sent, "ids count up from 0"
            assert frame[12] == (sent + first) % partitions
            outstanding.append(correlation_id)
            sent += 1
        assert loop.in_flight == len(outstanding) == in_flight
        assert loop.refill(now_ns) == b"", "a full window sends nothing"
        answered = draw.draw(st.integers(0, len(outstanding)))
        assert loop.receive(b"".join(map(answer, outstanding[:answered])), now_ns) == answered
        del outstanding[:answered]
    assert len(loop.sent_ns) == sent
    assert loop.received == list(range(sent - len(outstanding)))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-1, 133), st.integers(22, 60)), max_size=10), st.data())
def test_answers_are_understood_wherever_reads_cut_them(answers, draw):
    loop = ClosedLoop(template(), 10)
    loop.refill(5)
    data = b"".join(answer(*each) for each in answers)
    cuts = sorted(draw.draw(st.lists(st.integers(0, len(data)), max_size=6)))
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        loop.receive(data[start:end], 7)
    assert list(zip(loop.received, loop.errors, strict=True)) == [(each[0], each[1]) for each in answers]
    assert loop.answered_ns == [7] * len(answers)


@pytest.mark.parametrize("raw", [answer(64), answer(-1), struct.pack(">ii", 4, 0) + bytes(40), b"\x7f" * 40])
def test_what_was_never_asked_is_refused(raw):
    loop = ClosedLoop(template(), 4)
    loop.refill(0)
    with pytest.raises(LoadError):
        loop.receive(raw, 0)


@given(st.lists(st.integers(0, 50), max_size=30).map(sorted), st.lists(st.integers(0, 60), max_size=10).map(sorted))
def test_an_open_loop_sends_what_is_due_and_nothing_else(plan, moments):
    requests = [struct.pack(">ihhi", 12, 0, 9, 0) + struct.pack(">i", index) for index in range(len(plan))]
    loop = OpenLoop(requests, plan, ERROR_POSITION)
    for now_ns in moments:
        before = len(loop.sent_ns)
        sent = frames(loop.due(now_ns), 16)
        assert [struct.unpack_from(">ii", frame, 8) for frame in sent] == [
            (index, index) for index in range(before, before + len(sent))
        ]
        assert len(loop.sent_ns) == sum(1 for intended in plan if intended <= now_ns)
        assert loop.next_ns == next((intended for intended in plan if intended > now_ns), None)
    assert loop.intended_ns == plan[: len(loop.sent_ns)]
