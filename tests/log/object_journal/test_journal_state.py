"""The status of a journal in an object store, and reads without a request to the store."""

import pytest

from pipeline_broker.log.errors import JournalFailed, RecycledError
from pipeline_broker.log.journal.frame import ENTRY_OVERHEAD
from pipeline_broker.log.object_journal.journal_state import JournalState, journal_name
from pipeline_broker.log.object_journal.object_journal import lsn_of
from pipeline_broker.objects.lease_keeper import LeaseState
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.slot_writer import FencedError
from tests.log.object_journal.test_object_journal import Machine, Outage
from tests.objects.impatience import give_up

ENTRY_BYTES = ENTRY_OVERHEAD + 70
"""As a commit of one record of two bytes counts."""


def state(machine):
    found = machine.journal.state()
    assert found.lease is None
    return found[:-1]


def test_its_state_counts_unarchived_slots_and_slots_in_flight():
    store = MemoryStore()
    machine = Machine(store, segment_bytes=2 * ENTRY_BYTES)
    assert state(machine) == (1, 0, 0, 0, False)
    size = machine.entry(b"ab").size_bytes + ENTRY_OVERHEAD
    assert size == ENTRY_BYTES
    machine.commit(b"ab")
    assert state(machine) == (1, 1, size, 0, False)
    assert machine.journal.sealed() == []
    first = machine.write(b"ab")  # it fills the segment
    assert state(machine) == (1, 2, 2 * size, 1, False)
    assert machine.journal.sealed() == [], "not durable yet"
    second = machine.write(b"ab", b"ab")
    assert state(machine) == (1, 3, 4 * size, 2, False)
    machine.sync(first)
    machine.sync(second)
    assert state(machine)[3] == 0
    sealed = machine.journal.sealed()
    assert [end for _, end in sealed] == [
        lsn_of(number + count) for (number, _), count in zip(sealed, (2, 1), strict=True)
    ]
    assert machine.signals == [None, None]

    machine.journal.recycle(sealed[0][0])
    assert state(machine) == (1, 1, 2 * size, 0, False)
    successor = Machine(store, sealed[0][1])
    assert state(successor) == (2, 1, 2 * size, 0, False)
    with pytest.raises(JournalFailed):
        machine.commit(b"late")
    assert state(machine)[-1] is True


def test_a_segment_ends_at_its_maximum_number_of_entries(monkeypatch):
    monkeypatch.setattr("pipeline_broker.log.object_journal.object_journal.SEGMENT_ENTRIES_MAX", 3)
    machine = Machine(MemoryStore())
    machine.commit(b"a", b"b")
    assert machine.journal.sealed() == []
    machine.commit(b"c")
    machine.commit(b"d", b"e", b"f", b"g")
    assert len(machine.journal.sealed()) == 2


def test_an_owner_is_in_place_until_it_has_a_successor_whether_it_writes_or_not(monkeypatch):
    monkeypatch.setattr("pipeline_broker.log.object_journal.object_journal.pause_briefly", give_up)
    store = Outage(MemoryStore())
    machine = Machine(store)
    machine.commit(b"a")
    assert machine.journal.is_in_place()
    store.is_over.clear()
    assert machine.journal.is_in_place(), "a bucket that does not answer says nothing"
    store.is_over.set()
    Machine(store)
    with pytest.raises(FencedError, match="another broker took over as generation 2"):
        machine.journal.is_in_place()


@pytest.mark.parametrize("is_current", [True, False])
def test_a_holder_owns_the_log_while_its_lease_is_current(is_current):
    lease = LeaseState(is_held=True, age_seconds=1.0, is_current=is_current)
    journal = Machine(MemoryStore(), lease=lambda: lease).journal
    assert journal.is_owned() is is_current
    assert journal.state() == JournalState(1, 0, 0, 0, is_fenced=False, lease=lease)
    assert Machine(MemoryStore()).journal.is_owned()


def test_cached_bytes_are_read_at_their_position_and_others_are_not():
    for cache_bytes_max, is_kept in ((1 << 20, True), (0, False)):
        store = MemoryStore()
        machine = Machine(store, cache_bytes_max=cache_bytes_max)
        machine.commit(b"first", b"second")
        machine.commit(b"third")
        successor = Machine(store, cache_bytes_max=cache_bytes_max)
        for each in (machine, successor):
            places = each.logs[0].index.places
            for number, value in enumerate((b"first", b"second", b"third")):
                size = each.logs[0].index.size_of(number)
                whole = bytes(each.journal.read(places[number], size))
                assert value in whole
                found = each.journal.read_cached(places[number], size)
                assert (found is not None and bytes(found) == whole) is is_kept


def test_close_calls_its_callback_once_and_ends_writing():
    told = []
    machine = Machine(MemoryStore(), given_up=lambda: told.append("given up"), interrupt=lambda: told.append("let go"))
    ticket = machine.journal.write([])
    machine.journal.close()
    assert told == ["let go", "given up"]
    with pytest.raises(JournalFailed, match="the journal is closed"):
        machine.write(b"late")
    machine.journal.sync(ticket)
    assert machine.journal.write_nowait([]) is None


def test_after_a_failure_every_call_names_it():
    store = MemoryStore()
    machine = Machine(store)
    ticket = machine.journal.write([])
    Machine(store)
    for match in ("cannot be written: another broker", "failed earlier: another broker"):
        with pytest.raises(JournalFailed, match=match):
            machine.commit(b"late")
    with pytest.raises(JournalFailed, match="failed earlier: another broker"):
        machine.journal.sync(ticket)


def test_a_position_has_the_name_of_its_object():
    store = MemoryStore()
    first = Machine(store)
    first.commit(b"a", b"b")
    machine = Machine(store)
    machine.commit(b"c")
    for number, generation in ((0, 1), (1, 1), (2, 2)):
        place = machine.logs[0].index.places[number]
        name, position = machine.journal.name_of(place)
        size = machine.logs[0].index.size_of(number)
        assert name.startswith(f"object wal/1/{generation:020d}/")
        assert store.read(name.removeprefix("object "), position, size).data == machine.journal.read(place, size)


def test_a_slot_recycled_during_a_read_raises_recycled_error():
    """The reader has looked where it is, and finds it gone: no damage."""
    store = MemoryStore()
    machine = Machine(store, segment_bytes=1)
    machine.commit(b"a")
    place, ((number, _),) = machine.logs[0].index.places[0], machine.journal.sealed()
    look = machine.journal._reader.range

    def late(*arguments):
        machine.journal.recycle(number)
        return look(*arguments)

    machine.journal._reader.range = late
    with pytest.raises(RecycledError):
        machine.journal.read(place, 10)


def test_it_reports_its_directory_and_the_disk_space():
    journal = Machine(MemoryStore()).journal
    assert str(journal.data_directory) == "/d"
    total_bytes, free_bytes = journal.disk_space()
    assert total_bytes >= free_bytes > 0
    assert journal_name(7) == "wal/7"


def test_a_write_after_detaching_the_archiver_fails():
    machine = Machine(MemoryStore())
    machine.journal.detach_archiver()
    for match in ("cannot be written", "failed earlier"):
        with pytest.raises(JournalFailed, match=match):
            machine.write(b"late")
