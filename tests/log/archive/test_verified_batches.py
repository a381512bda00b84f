"""Remembered positions of verified batches: neighbours form a run, within bounds."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.archive.verified_batches import VerifiedBatch, VerifiedBatches

KEY, OTHER = ("t-0", 0, 1), ("t-1", 0, 1)
BATCHES = [VerifiedBatch(10 * n, 100 * n, 100 * n + 100, 10 * n + 10) for n in range(20)]


def find(verified, offset, bytes_max=10_000, last_offset=10_000, key=KEY):
    return verified.find(key, offset, bytes_max, last_offset)


@given(known=st.sets(st.integers(0, 19)), first=st.integers(0, 19), bytes_max=st.integers(0, 2500))
def test_a_run_has_the_neighbours_that_fit(known, first, bytes_max):
    verified = VerifiedBatches()
    verified.add(KEY, [BATCHES[number] for number in sorted(known)])
    count = 0
    while first + count in known and 100 * (count + 1) <= bytes_max:
        count += 1
    wanted = (100 * first, 100 * count, 10 * (first + count)) if count else None
    assert find(verified, 10 * first, bytes_max) == wanted


def test_a_run_begins_with_the_batch_of_its_offset_only():
    verified = VerifiedBatches()
    verified.add(KEY, BATCHES)
    assert find(verified, 11) is None
    assert find(verified, 10, key=OTHER) is None


def test_a_run_ends_at_the_last_offset_of_its_reader_and_at_a_gap_between_batches():
    verified = VerifiedBatches()
    verified.add(KEY, BATCHES)
    assert find(verified, 0, last_offset=29).end_offset == 30
    assert find(verified, 0, last_offset=28).end_offset == 20
    verified.add(KEY, [BATCHES[5]._replace(start=501)])
    assert find(verified, 0).end_offset == 50


def test_the_segment_that_was_used_least_recently_is_forgotten_first():
    verified = VerifiedBatches(batches_max=25)
    verified.add(KEY, BATCHES[:10])
    verified.add(OTHER, BATCHES[:10])
    assert find(verified, 0) is not None
    verified.add(("t-2", 0, 1), BATCHES[:10])
    assert find(verified, 0, key=OTHER) is None
    assert find(verified, 0) is not None
    assert len(verified) == 20


def test_a_single_segment_keeps_the_batches_that_were_verified_last():
    verified = VerifiedBatches(batches_max=3)
    verified.add(KEY, BATCHES[:4])
    verified.add(KEY, [BATCHES[1]])
    verified.add(KEY, [BATCHES[4]])
    assert [find(verified, 10 * n, 100) is not None for n in range(5)] == [False, True, False, True, True]
    assert len(verified) == 3


def test_a_forgotten_segment_takes_no_memory():
    verified = VerifiedBatches()
    verified.add(KEY, BATCHES)
    verified.forget(KEY)
    verified.forget(OTHER)
    assert (find(verified, 0), len(verified)) == (None, 0)
