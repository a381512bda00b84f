"""Parts that are cut into runs hold the same bytes, uncopied."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.files.parts import cut_parts


@given(st.lists(st.binary(max_size=5)), st.data())
def test_runs_of_these_sizes_hold_the_same_bytes_in_order(parts, data):
    whole = b"".join(parts)
    ends = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    sizes = [end - start for start, end in zip([0, *ends], [*ends, len(whole)], strict=True)]
    runs = [b"".join(run) for run in cut_parts(parts, sizes)]
    assert [len(run) for run in runs] == sizes
    assert b"".join(runs) == whole


def test_nothing_is_copied():
    part = bytearray(b"abcd")
    (first,), (second,) = cut_parts([part], (1, 3))
    part[:] = b"efgh"
    assert (bytes(first), bytes(second)) == (b"e", b"fgh")
