"""The cache keeps the newest slots within its limit."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.object_journal.slot_cache import SlotCache


def test_a_part_of_a_cached_slot_is_read_and_others_are_none():
    cache = SlotCache(100)
    cache.add(7, b"0123456789")
    assert cache.read(7, 2, 3) == b"234"
    assert cache.read(8, 0, 1) is None
    cache.drop(range(5, 8))
    assert cache.read(7, 2, 3) is None


@given(st.integers(0, 30), st.lists(st.tuples(st.booleans(), st.integers(0, 12)), max_size=40))
def test_the_newest_slots_that_fit_are_kept(bytes_max, steps):
    cache, kept = SlotCache(bytes_max), []
    for slot, (is_drop, size) in enumerate(steps):
        if is_drop:
            cache.drop(range(size))
            kept = [each for each in kept if each[0] >= size]
        else:
            cache.add(slot, bytes(size))
            kept.append((slot, size))
            while sum(each for _, each in kept) > bytes_max:
                kept.pop(0)
        found = [each for each in range(len(steps)) if cache.read(each, 0, 99) is not None]
        assert found == [each for each, _ in kept]
