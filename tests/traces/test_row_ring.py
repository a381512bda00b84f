"""A ring keeps rows in their order until they are taken, and counts dropped rows."""

import sys
from itertools import count
from struct import Struct

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.traces.row_ring import RING_FULL, RowRing
from tests.compiled import skip_if_compiled
from tests.traces.looking_layout import LookingLayout

LAYOUT = Struct("<qb")


@given(
    rows_max=st.integers(1, 5),
    steps=st.lists(st.one_of(st.just("take"), st.just("claim"), st.just("append")), max_size=60),
)
def test_packed_rows_are_taken_and_dropped_rows_are_counted(rows_max, steps):
    ring, waiting, dropped = RowRing(LAYOUT, rows_max), [], 0
    for number, step in enumerate(steps):
        if step == "take":
            assert list(LAYOUT.iter_unpack(ring.take())) == waiting
            waiting = []
            continue
        row = (number, number % 100)
        if step == "append":
            ring.append(*row)
        elif (position := ring.claim()) != RING_FULL:
            ring.pack_into(ring.buffer, position, *row)
            ring.publish()
        if len(waiting) < rows_max:
            waiting.append(row)
        else:
            dropped += 1
        assert (len(ring), ring.dropped) == (len(waiting), dropped)


def test_a_row_is_not_taken_before_it_is_published():
    ring = RowRing(LAYOUT, 2)
    position = ring.claim()
    assert (ring.take(), len(ring)) == (b"", 0)
    ring.pack_into(ring.buffer, position, 5, 6)
    ring.publish()
    assert ring.take() == LAYOUT.pack(5, 6)


def test_a_row_is_packed_before_it_can_be_taken():
    layout = LookingLayout(LAYOUT.format)
    ring = layout.ring = RowRing(layout, 3)
    for number in range(3):
        ring.append(number, 0)
    assert layout.seen == [0, 1, 2]


class Interrupting:
    """Calls something once, before a line of a function, like a thread that runs in between."""

    def __init__(self, code, lines, call):
        self.code, self.left, self.call = code, lines, call
        self.has_called = False

    def trace(self, frame, event, _):
        if frame.f_code is not self.code:
            return None
        if event == "line":
            if not self.left:
                self.has_called = True
                self.call()
            self.left -= 1
        return self.trace


def test_a_row_published_during_take_is_taken_then_or_later():
    skip_if_compiled(RowRing, "take")
    for lines in count():
        ring = RowRing(LAYOUT, 3)
        ring.append(0, 0)
        ring.append(1, 0)
        between = Interrupting(RowRing.take.__code__, lines, lambda ring=ring: ring.append(2, 0))
        before = sys.gettrace()
        sys.settrace(between.trace)
        try:
            first = ring.take()
        finally:
            sys.settrace(before)
        rows = [number for number, _ in LAYOUT.iter_unpack(first + ring.take())]
        assert rows == [0, 1, 2][: 2 + between.has_called], f"in front of line {lines}"
        if not between.has_called:
            break
    assert lines > 4
