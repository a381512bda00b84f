"""Every lookup in the index over the journal, compared with a scan over its batches."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.journal.offset_index import OffsetIndex

STEPS = st.lists(
    st.tuples(st.integers(1, 3), st.sampled_from([1, 10, 100]), st.integers(-1, 5)) | st.integers(0, 30), max_size=12
)
"""A batch with its records, bytes and largest time; or what the archive took over, by the offset behind it."""


def number_of(rows, is_it):
    return next((number for number, row in enumerate(rows) if is_it(row)), None)


def check(index, rows):
    """Rows are base offset, place, bytes, largest time."""
    bases = [base for base, _, _, _ in rows]
    times = [time for _, _, _, time in rows]
    sizes = [size for _, _, size, _ in rows]
    assert len(index) == len(rows)
    assert index.size_bytes == sum(sizes)
    assert list(index.bases) == bases
    assert list(index.places) == [place for _, place, _, _ in rows]
    assert list(index.own_timestamps) == times
    assert list(index.timestamps) == [max(times[: number + 1]) for number in range(len(rows))]
    assert [index.size_of(number) for number in range(len(rows))] == sizes
    for offset in range(40):
        assert index.find(offset) == sum(base <= offset for base in bases) - 1
    for offset in range(40):
        first = sum(base < offset for base in bases)
        assert index.latest(offset) == (first + times[first:].index(max(times[first:])) if times[first:] else None)
    for first in range(len(rows)):
        for time in range(-2, 7):
            later = number_of(rows[first:], lambda row, time=time: row[3] >= time)
            assert index.first_since(time, first) == (None if later is None else first + later)
        for bytes_max in (0, 1, 9, 10, 11, 110, 111, 1000):
            fitting = sum(sum(sizes[first:end]) <= bytes_max for end in range(first + 1, len(rows) + 1))
            assert index.run_end(first, bytes_max, at_least_one=False) == first + fitting
            assert index.run_end(first, bytes_max, at_least_one=True) == first + max(1, fitting)


@given(STEPS)
def test_an_index_behaves_like_a_list_of_its_batches(steps):
    index, rows, offset, total = OffsetIndex(), [], 0, 0
    for step in steps:
        if isinstance(step, int):
            gone = sum(base < step for base, _, _, _ in rows)
            assert index.drop_before(step) == gone
            rows = rows[gone:]
        else:
            count, size, time = step
            index.append(offset, 7 * offset, size, time)
            rows.append((offset, 7 * offset, size, time))
            offset += count
            total += size
        check(index, rows)
    assert index.totals[-1] == total, "dropped bytes stay counted"
