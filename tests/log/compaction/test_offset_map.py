"""The offset map: exact for every key, and never larger than its budget."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.compaction.offset_map import (
    DEDUPE_BUFFER_BYTES_DEFAULT,
    DIGEST_BYTES,
    ENTRY_BYTES,
    OffsetMap,
    slot,
)

# How much a process grows by filling a map of MiB with keys as long as given, at its peak; linear in the budget.
MEASURE = """
import sys
from pipeline_broker.log.compaction.offset_map import OffsetMap

def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))

mib, key_bytes = map(int, sys.argv[1:])
offset_map = OffsetMap(mib << 20)
before = status("VmRSS")
for number in range(offset_map.capacity):
    offset_map.put(b"%0*d" % (key_bytes, number), 10**12 + number)
print(status("VmHWM") - before)
"""

keys = st.binary(max_size=2 * DIGEST_BYTES)


@given(st.lists(st.tuples(keys, st.integers(0, 2**60))), keys)
def test_the_map_says_what_was_put_last(entries, other):
    offset_map, model = OffsetMap(), {}
    for key, offset in entries:
        offset_map.put(key, offset)
        model[key] = offset
        assert offset_map.latest_offset == offset
    assert len(offset_map) == len(model)
    for key in [*model, other]:
        assert offset_map.get(key) == model.get(key, -1)


@given(keys)
def test_a_key_is_never_taken_for_the_digest_of_another(key):
    assert len(slot(key)) <= DIGEST_BYTES
    assert slot(slot(key)) != slot(key) or len(key) < DIGEST_BYTES


def test_a_full_map_takes_nothing_more():
    offset_map = OffsetMap(2 * ENTRY_BYTES)
    offset_map.put(b"a", 1)
    offset_map.put(b"a", 2)
    assert not offset_map.is_full
    offset_map.put(b"b", 3)
    assert offset_map.is_full
    with pytest.raises(AssertionError):
        offset_map.put(b"c", 4)


def test_a_budget_without_room_for_a_key_is_refused():
    with pytest.raises(AssertionError):
        OffsetMap(ENTRY_BYTES - 1)


def test_the_default_budget_is_as_many_keys_as_the_documentation_says():
    assert OffsetMap().capacity == DEDUPE_BUFFER_BYTES_DEFAULT // ENTRY_BYTES == 657_930


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc/self/status")
@pytest.mark.parametrize("key_bytes", [15, 40])
def test_a_map_takes_no_more_memory_than_its_budget_even_while_it_grows(key_bytes):
    mib = 70  # 359,809 keys: just after the table has grown, where a key costs most
    command = [sys.executable, "-c", MEASURE, str(mib), str(key_bytes)]
    grown = int(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    assert grown <= mib << 20
