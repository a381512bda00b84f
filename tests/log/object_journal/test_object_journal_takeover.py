"""A journal in an object store and two owners: late work of the predecessor, and the first steps of the successor."""

import threading
from pathlib import Path

import pytest

from pipeline_broker.files.errors import Obstacle
from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.journal.taken_directory import TakenDirectory
from pipeline_broker.log.object_journal.object_journal import ObjectJournal
from pipeline_broker.objects.fenced_log import Place, boundary_name, slot_name
from pipeline_broker.objects.fencing import take_over
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.slot_writer import FencedError
from pipeline_broker.objects.store import Unavailable
from pipeline_broker.records.batch import read_header
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.object_journal.test_object_journal import LOG, SECONDS_MAX, Machine, archive, values_of


def test_slots_recycled_by_the_predecessor_during_recovery_are_not_missed():
    store = MemoryStore()
    zombie = Machine(store, segment_bytes=1)
    for value in (b"1", b"2", b"3"):
        zombie.commit(value)
    number, archived = zombie.journal.sealed()[0]

    class RecyclesBetween:
        """Recycles a segment of the predecessor after the successor has read the boundary."""

        is_armed = False

        def list(self, prefix, after=""):
            if self.is_armed:
                self.is_armed = False
                zombie.journal.recycle(number)
            return store.list(prefix, after)

        def __getattr__(self, name):
            return getattr(store, name)

    between = RecyclesBetween()
    ownership = take_over(between, LOG, 1, lambda: bytes(16))
    journal = ObjectJournal(between, LOG, 1, ownership, TakenDirectory.take(Path("/d"), MemoryFileSystem()))
    between.is_armed = True
    found = [value for _, _, batch in journal.recover(archived) for value in values_of(read_header(batch), batch)]
    assert (found, between.is_armed) == ([b"2", b"3"], False)


def test_an_owner_whose_segment_a_successor_recycled_is_fenced():
    """It stalled at the start of archiving. Its successor has archived and recycled the segment."""
    store = MemoryStore()
    zombie = Machine(store, segment_bytes=1)
    zombie.commit(b"1")
    ((number, end_lsn),) = zombie.journal.sealed()
    archive(Machine(store, segment_bytes=1))
    with pytest.raises(FencedError, match="as generation 2"):
        list(zombie.journal.sealed_entries(number, end_lsn))


def test_an_unanswered_check_of_a_missing_segment_is_an_obstacle():
    """Shutdown ends all waiting for the store, so the check of the boundary gets no answer."""
    store = MemoryStore()

    class HidesBoundary:
        is_armed = False

        def read(self, name, start, size_bytes):
            if self.is_armed and name == boundary_name(LOG):
                raise Unavailable("the broker ends")
            return store.read(name, start, size_bytes)

        def __getattr__(self, name):
            return getattr(store, name)

    hiding = HidesBoundary()
    zombie = Machine(hiding, segment_bytes=1)
    zombie.commit(b"1")
    ((number, end_lsn),) = zombie.journal.sealed()
    store.delete([slot_name(LOG, Place(1, number))])
    zombie.journal.detach_archiver()
    hiding.is_armed = True
    with pytest.raises(Obstacle, match="the broker ends"):
        list(zombie.journal.sealed_entries(number, end_lsn))


def test_a_damaged_segment_is_not_a_takeover():
    store = MemoryStore()
    machine = Machine(store, segment_bytes=1)
    machine.commit(b"1")
    ((number, end_lsn),) = machine.journal.sealed()
    store.delete([slot_name(LOG, Place(1, number))])
    with pytest.raises(JournalCorrupt):
        list(machine.journal.sealed_entries(number, end_lsn))


def test_a_successor_writes_at_once_whatever_its_predecessor_left_unarchived():
    store = MemoryStore()
    first = Machine(store, segment_bytes=1)
    for value in (b"1", b"2", b"3"):
        first.commit(value)
    successor = Machine(store, segment_bytes=1)
    successor.journal.attach_archiver(2)
    successor.commit(b"4")
    waiting = threading.Thread(target=successor.commit, args=(b"5",))
    waiting.start()
    waiting.join(0.05)
    assert waiting.is_alive()  # as much again does wait
    for number, _ in successor.journal.sealed()[:3]:
        successor.journal.recycle(number)
    waiting.join(SECONDS_MAX)
    assert not waiting.is_alive()


def test_unarchived_slots_are_read_from_memory_also_by_a_successor():
    """Each commit is an object, so that a reader of many small ones would wait for as many answers of the store."""
    store = MemoryStore()

    class Counting:
        reads = 0

        def read(self, name, start, size_bytes):
            self.reads += 1
            return store.read(name, start, size_bytes)

        def __getattr__(self, name):
            return getattr(store, name)

    values = [b"%d" % number for number in range(50)]
    first = Machine(store, cache_bytes_max=1 << 20)
    for value in values:
        first.commit(value)
    counting = Counting()
    successor = Machine(counting, cache_bytes_max=1 << 20)
    successor.commit(b"more")
    counting.reads = 0
    assert successor.read() == [*values, b"more"]
    assert counting.reads == 0
