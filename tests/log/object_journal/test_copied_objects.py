"""Objects of the journal that the archive copies within the store: those that consist of large batches."""

import pytest

from pipeline_broker.log.journal.journal_port import ORIGIN_BYTES_MIN
from pipeline_broker.log.object_journal.object_journal import COPIED_SHARE_MIN
from pipeline_broker.objects.memory_store import MemoryStore
from tests.log.object_journal.test_object_journal import Machine

CACHE_BYTES_MAX = 64 << 20
LARGE = bytes(ORIGIN_BYTES_MIN)
REST = int(ORIGIN_BYTES_MIN * (1 / COPIED_SHARE_MIN - 1))
"""Bytes beside a large batch with which its object is just not copied, because headers come on top of them."""


def stored_by(machine, *values):
    machine.commit(*values)
    machine.journal.seal()
    (segment,) = machine.journal.sealed()
    return list(machine.journal.sealed_entries(*segment))


def test_each_large_batch_is_found_in_the_object_of_its_commit():
    store = MemoryStore()
    machine = Machine(store, cache_bytes_max=CACHE_BYTES_MAX)
    entries = stored_by(machine, LARGE, LARGE + b"2")
    assert len(entries) == 2
    origins = [machine.journal.origin(place, len(batch)) for _, place, batch in entries]
    for origin, (_, _, batch) in zip(origins, entries, strict=True):
        stored = store.read(origin.name, origin.start, len(batch)).data
        assert bytes(stored) == bytes(origin.content[origin.start :][: len(batch)]) == bytes(batch)
    first, second = origins
    assert (first.name, bytes(first.content)) == (second.name, bytes(second.content))
    assert first.start != second.start


@pytest.mark.parametrize(
    ("values", "is_copied"),
    [
        ([LARGE, bytes(REST // 2)], [True, False]),
        ([LARGE, bytes(REST)], [False, False]),
        ([bytes(ORIGIN_BYTES_MIN // 2)], [False]),
    ],
    ids=["mostly large", "too much beside it", "small"],
)
def test_an_object_is_copied_if_most_of_it_is_large_batches(values, is_copied):
    machine = Machine(MemoryStore(), cache_bytes_max=CACHE_BYTES_MAX)
    entries = stored_by(machine, *values)
    assert [machine.journal.origin(place, len(batch)) is not None for _, place, batch in entries] == is_copied


def test_an_object_that_is_no_longer_in_memory_is_not_copied():
    machine = Machine(MemoryStore(), cache_bytes_max=0)
    ((_, place, batch),) = stored_by(machine, LARGE)
    assert machine.journal.origin(place, len(batch)) is None
