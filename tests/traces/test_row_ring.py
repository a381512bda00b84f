"""A ring keeps rows in their order until they are taken, and counts those without room."""

from struct import Struct

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.traces.row_ring import NO_ROOM, RowRing

LAYOUT = Struct("<qb")


@given(
    rows_max=st.integers(1, 5),
    steps=st.lists(st.one_of(st.just("take"), st.just("claim"), st.just("append")), max_size=60),
)
def test_what_is_taken_is_what_was_packed_and_the_rest_is_counted(rows_max, steps):
    ring, waiting, dropped = RowRing(LAYOUT, rows_max), [], 0
    for number, step in enumerate(steps):
        if step == "take":
            assert list(LAYOUT.iter_unpack(ring.take())) == waiting
            waiting = []
            continue
        row = (number, number % 100)
        if step == "append":
            ring.append(*row)
        elif (position := ring.claim()) != NO_ROOM:
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
