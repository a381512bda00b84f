"""The offset map is exact for every key, and never larger than its budget."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.compaction.offset_map import (
    BUCKET_PLACES,
    DIGEST_BYTES,
    LOAD_PERCENT_MAX,
    SLOT_BYTES,
    OffsetMap,
)

# How much a process grows by filling a map of MiB with keys as long as given, at its peak; linear in the budget.
MEASURE = """
import sys
from pipeline_broker.log.compaction.offset_map import OffsetMap

def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

mib, key_bytes = map(int, sys.argv[1:])
before = status("VmRSS")
offset_map = OffsetMap(mib << 20)
for number in range(offset_map.capacity):
    assert offset_map.put(b"%0*d" % (key_bytes, number), 10**12 + number)
assert not offset_map.put(b"one more", 0)
print(status("VmHWM") - before)
"""
KAFKA_PLACE_BYTES = 24
SLACK_BYTES = 256 << 10
"""Growth of any process."""

keys = st.binary(max_size=2 * DIGEST_BYTES) | st.integers(0, 16).map(bytes)
crowded = st.integers(0, 300).map(lambda number: b"%03d" % number)


@given(st.lists(st.tuples(keys | crowded, st.integers(0, 2**60)), max_size=400), keys)
def test_the_map_returns_the_last_offset_put(entries, other):
    """The table has so few buckets that keys overflow to the next one."""
    offset_map, model = OffsetMap(keys_max=400), {}
    for key, offset in entries:
        assert offset_map.put(key, offset)
        model[key] = offset
        assert offset_map.latest_offset == offset
    assert len(offset_map) == len(model)
    for key in [*model, other]:
        assert offset_map.get(key) == model.get(key, -1)


@pytest.mark.parametrize("count", [BUCKET_PLACES, 1000, 5000, 120_000])
def test_a_full_map_has_every_key_in_it(count):
    """Also those whose bucket was full when they came, around the end of the table too."""
    offset_map = OffsetMap(keys_max=count)
    for number in range(count):
        assert offset_map.put(b"%d" % number, number)
    assert len(offset_map) == count
    assert all(offset_map.get(b"%d" % number) == number for number in range(count))
    assert all(offset_map.get(b"no %d" % number) == -1 for number in range(count))


@pytest.mark.parametrize("place", range(1, SLOT_BYTES))
def test_a_key_that_lies_across_two_others_is_not_taken_for_one(place):
    """The end of one key and the beginning of the next, as they lie in the table, look like a third."""
    first, second = b"a" * 15, b"b" * (place - 1) + b"\x0f" + b"c" * (15 - place)
    third = (first + b"\x0f" + second)[place : place + 15]
    offset_map = OffsetMap(keys_max=3)
    offset_map.put(first, 1)
    offset_map.put(second, 2)
    assert bytes(offset_map._slots[0][place : place + SLOT_BYTES]) == third + b"\x0f"
    assert offset_map.get(third) == -1
    offset_map.put(third, 3)
    assert [offset_map.get(key) for key in (first, second, third)] == [1, 2, 3]


@pytest.mark.parametrize("alike", [0, 1, 2, 14])
def test_a_key_is_found_after_an_accidental_match_across_two_slots(alike):
    """The end of a long key and the beginning of this one look like it, once or several times before it."""
    offset_map, key, other = OffsetMap(keys_max=3), b"\x0f" * 15, b"a" * (15 - alike) + b"\x0f" * alike
    offset_map.put(other, 1)
    offset_map.put(key, 2)
    offset_map.put(key, 3)
    assert [offset_map.get(each) for each in (other, key)] == [1, 3]
    assert len(offset_map) == 2


@given(st.binary(min_size=16, max_size=40))
def test_a_key_is_never_taken_for_the_digest_of_another(key):
    offset_map = OffsetMap(keys_max=2)
    offset_map.put(key, 1)
    kept = bytes(offset_map._slots[0][:16])
    for other in (kept, kept[:15], kept[:14]):
        assert offset_map.get(other) == -1


def test_a_full_map_takes_nothing_more():
    offset_map = OffsetMap(keys_max=2)
    assert offset_map.put(b"a", 1)
    assert offset_map.put(b"a", 2)
    assert offset_map.put(b"b", 3)
    assert not offset_map.put(b"c", 4)
    assert not offset_map.put(b"a", 4), "as Kafka: not even a key that is there already"
    assert (offset_map.get(b"a"), offset_map.latest_offset) == (2, 3)


@pytest.mark.parametrize("count", [1, 57, 58, 1000, 100_000])
def test_a_map_for_few_keys_has_as_many_buckets_as_these_need(count):
    offset_map = OffsetMap(keys_max=count)
    buckets = len(offset_map._taken)
    assert (buckets - 1) * BUCKET_PLACES * LOAD_PERCENT_MAX <= 100 * count
    assert sum(map(len, offset_map._slots)) == buckets * BUCKET_PLACES * SLOT_BYTES
    assert sum(map(len, offset_map._offsets)) == buckets * BUCKET_PLACES
    assert (len(offset_map), offset_map.latest_offset) == (0, -1)


def test_a_budget_without_room_for_a_key_is_refused():
    with pytest.raises(AssertionError):
        OffsetMap(KAFKA_PLACE_BYTES)


def test_the_default_budget_is_as_many_keys_as_the_documentation_says():
    """One in a thousand fewer than Kafka's table of the same size."""
    assert OffsetMap().capacity == 5_029_862


@pytest.mark.parametrize("key_bytes", [15, 40])
def test_a_map_takes_no_more_memory_than_its_budget_even_when_it_is_full(key_bytes):
    mib = 8
    command = [sys.executable, "-c", MEASURE, str(mib), str(key_bytes)]
    grown = int(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert grown <= (mib << 20) + SLACK_BYTES
