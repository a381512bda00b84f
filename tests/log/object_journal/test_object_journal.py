"""The journal in an object store: acknowledged commits exist on an empty machine and for a successor.

Longer than most files: all tests use one journal on the same machines.
"""

import threading
from pathlib import Path

import pytest

from pipeline_broker.files.errors import Obstacle
from pipeline_broker.log.errors import JournalCorrupt, JournalFailed, RecycledError
from pipeline_broker.log.journal.taken_directory import TakenDirectory
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.object_journal.object_journal import ObjectJournal, _head, lsn_of
from pipeline_broker.objects.boundary import read_boundary
from pipeline_broker.objects.fenced_log import Place, slot_name
from pipeline_broker.objects.fencing import list_places, take_over
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.slot_writer import FencedError
from pipeline_broker.objects.store import Unavailable, list_all
from pipeline_broker.records.batch import HEADER_SIZE, NewRecord, build_batch, read_header
from pipeline_broker.records.record import iterate_records
from tests.files.memory_file_system import MemoryFileSystem
from tests.objects.impatience import give_up

LOG = "wal/1"
TOPIC_ID = bytes(range(16))
SECONDS_MAX = 20


class Machine:
    """A broker's logs on a machine that has nothing but the bucket."""

    nonces = iter(range(1, 1 << 20))

    def __init__(self, store, archived_lsn=0, partitions=2, **options):
        self.signals = []
        ownership = take_over(store, LOG, 1, lambda: next(self.nonces).to_bytes(16, "big"))
        taken = TakenDirectory.take(Path("/d"), MemoryFileSystem())
        self.journal = ObjectJournal(
            store,
            LOG,
            1,
            ownership,
            taken,
            segment_sealed=lambda: self.signals.append(None),
            **{"cache_bytes_max": 0, **options},
        )
        self.manager = LogManager(self.journal, cache_bytes_max=0)
        self.logs = self.manager.create("topic", TOPIC_ID, partitions)
        self.found = []
        for key, place, batch in self.journal.recover(archived_lsn):
            log = self.manager.find_by_key(key)
            header = read_header(batch)
            log.replay(header, place, 0, batch)
            self.found += values_of(header, batch)

    def entry(self, value, partition=0):
        batch = build_batch([NewRecord(value)])
        return self.logs[partition].append(read_header(batch), batch, now_ms=0).entry

    def write(self, *values, partition=0):
        return self.journal.write([self.entry(value, partition) for value in values])

    def sync(self, ticket):
        self.journal.sync(ticket)
        self.manager.on_durable(list(ticket.entries))

    def commit(self, *values, partition=0):
        self.sync(self.write(*values, partition=partition))

    def read(self, partition=0):
        """Return what a consumer reads from offset 0, from the store."""
        log, found, offset = self.logs[partition], [], 0
        while offset < log.high_watermark:
            result = log.read(offset, 1 << 20, at_least_one=True)
            parts = result.parts or result.cold()
            data = memoryview(b"".join(parts))
            while data:
                header = read_header(data)
                found += values_of(header, data[: header.size_bytes])
                offset = header.base_offset + header.last_offset_delta + 1
                data = data[header.size_bytes :]
        return found


def values_of(header, batch):
    return [bytes(record.value) for record in iterate_records(batch, header)]


def test_commits_are_recovered_on_an_empty_machine():
    store = MemoryStore()
    machine = Machine(store)
    for number in range(20):
        machine.commit(b"a%d" % number, b"b%d" % number)
        machine.commit(b"other %d" % number, partition=1)
    committed = [b"%s%d" % (letter, number) for number in range(20) for letter in (b"a", b"b")]
    other = [b"other %d" % number for number in range(20)]
    assert (machine.read(0), machine.read(1)) == (committed, other)

    successor = Machine(store)
    assert (successor.read(0), successor.read(1)) == (committed, other)
    assert successor.journal.generation == machine.journal.generation + 1


def test_entries_stored_by_partition_are_returned_in_commit_order():
    store = MemoryStore()
    machine = Machine(store)
    entries = [machine.entry(b"%d" % number, partition=number % 2) for number in range(10)]
    machine.sync(machine.journal.write(entries))
    assert Machine(store).found == [b"%d" % number for number in range(10)]


def test_an_empty_commit_is_durable_at_once_and_takes_no_slot():
    machine = Machine(MemoryStore())
    before = machine.journal.next_lsn
    machine.journal.sync(machine.journal.write([]))
    assert machine.journal.next_lsn == before
    machine.commit(b"a")
    assert machine.read() == [b"a"]


@pytest.mark.parametrize("cut", [0, 1, HEADER_SIZE - 1, HEADER_SIZE, HEADER_SIZE + 1, 80])
def test_the_header_of_a_batch_is_whole_wherever_its_parts_begin(cut):
    batch = build_batch([NewRecord(b"value")])
    assert len(batch) > HEADER_SIZE
    assert _head([batch[:cut], memoryview(batch)[cut:]]) == batch[:HEADER_SIZE]


def test_large_batches_are_read_back_too():
    store = MemoryStore()
    machine = Machine(store)
    values = [b"x" * 200_000, b"small", b"y" * 100_000]
    machine.commit(*values)
    assert machine.read() == values
    assert Machine(store).read() == values


def test_a_replaced_owner_acknowledges_nothing():
    store = MemoryStore()
    machine = Machine(store)
    machine.commit(b"before")
    under_way = machine.write(b"under way")
    successor = Machine(store)
    with pytest.raises(JournalFailed, match="another broker took over as generation 2") as failed:
        machine.sync(under_way)
    assert isinstance(failed.value.__cause__, FencedError)
    with pytest.raises(JournalFailed):
        machine.write(b"after")
    assert successor.read() == [b"before"]
    successor.commit(b"goes on")
    assert Machine(store).read() == [b"before", b"goes on"]


def test_a_commit_is_durable_once_earlier_ones_are():
    machine = Machine(MemoryStore())
    first, second = machine.write(b"1"), machine.write(b"2")
    durable = []

    def sync(ticket):
        machine.journal.sync(ticket)
        durable.append(ticket)

    thread = threading.Thread(target=sync, args=(second,))
    thread.start()
    thread.join(0.05)
    assert durable == []
    sync(first)
    thread.join(SECONDS_MAX)
    assert sorted(durable) == [first, second]


@pytest.fixture
def without_patience(monkeypatch):
    """Do not repeat requests that the store refuses."""

    monkeypatch.setattr("pipeline_broker.log.object_journal.store_room.StoreRoom.pause", staticmethod(give_up))


class RefusesOne(MemoryStore):
    """Does not take one object."""

    refused = ""

    def create(self, name, parts):
        if name == self.refused:
            raise Unavailable("503")
        return super().create(name, parts)


@pytest.mark.usefixtures("without_patience")
def test_a_commit_fails_when_an_earlier_one_fails():
    store = RefusesOne()
    machine = Machine(store)
    first, second = machine.write(b"1"), machine.write(b"2")
    store.refused = slot_name(LOG, Place(1, first.header.slot))
    failed = []

    def sync():
        with pytest.raises(JournalFailed) as error:
            machine.sync(second)
        failed.append(error)

    thread = threading.Thread(target=sync, daemon=True)
    thread.start()
    with pytest.raises(JournalFailed):
        machine.sync(first)
    thread.join(SECONDS_MAX)
    assert len(failed) == 1


def test_archived_entries_of_a_segment_are_not_returned_again():
    machine = Machine(MemoryStore())
    for value in (b"1", b"2", b"3"):
        machine.commit(value)
    machine.journal.seal()
    ((number, end),) = machine.journal.sealed()
    for count in range(4):
        entries = machine.journal.sealed_entries(number, end, lsn_of(number + count))
        assert len(list(entries)) == 3 - count


def archive(machine):
    """Take over all complete segments as an archiver does; return their values and the LSN after them."""
    values, end = [], 0
    while sealed := machine.journal.sealed():
        number, end = sealed[0]
        for _, _, batch in machine.journal.sealed_entries(number, end):
            values += values_of(read_header(batch), batch)
        machine.journal.recycle(number)
    return values, end


def test_archived_slots_are_recycled_and_not_recovered():
    store = MemoryStore()
    machine = Machine(store, segment_bytes=500)
    committed = [b"%d" % number for number in range(32)]
    for value in committed:
        machine.commit(value)
    place = machine.logs[0].index.places[0]
    archived, end_lsn = archive(machine)
    assert archived == committed[: len(archived)]
    assert 20 < len(archived) < len(committed)
    assert len(machine.signals) == 5
    with pytest.raises(RecycledError):
        machine.journal.read(place, 10)
    assert read_boundary(store, LOG).place.slot << 21 == end_lsn
    data = [name for name, size in list_all(store, LOG + "/") if size > 200]
    assert len(data) == len(committed) - len(archived)

    successor = Machine(store, end_lsn)
    assert successor.found == committed[len(archived) :]
    successor.commit(b"more")
    successor.journal.seal()
    assert archive(successor)[0] == [*committed[len(archived) :], b"more"]


class Reads(MemoryStore):
    """Notes which objects of commits are read."""

    def __init__(self):
        super().__init__()
        self.read_names = []

    def read(self, name, start, size_bytes):
        if not name.endswith("boundary"):
            self.read_names.append(name)
        return super().read(name, start, size_bytes)


def test_the_archiver_requests_only_uncached_slots():
    store = Reads()
    machine = Machine(store, segment_bytes=500, cache_bytes_max=1 << 20)
    committed = [b"%d" % number for number in range(32)]
    for value in committed:
        machine.commit(value)
    store.read_names.clear()
    archived, _ = archive(machine)
    assert (archived, store.read_names) == (committed[: len(archived)], [])

    few = Machine(store := Reads(), segment_bytes=500, cache_bytes_max=1_000)
    for value in committed:
        few.commit(value)
    store.read_names.clear()
    assert archive(few)[0] == archived
    assert 0 < len(store.read_names) < len(archived)


def test_several_segments_are_recycled_at_once():
    store = MemoryStore()
    machine = Machine(store, segment_bytes=1)
    for value in (b"1", b"2", b"3"):
        machine.commit(value)
    first, second, third = machine.journal.sealed()
    machine.journal.recycle(second[0])
    assert machine.journal.sealed() == [third]
    assert read_boundary(store, LOG).place.slot == third[0]
    assert Machine(store, second[1]).found == [b"3"]
    assert first[1] == lsn_of(second[0])


class KeepsAll(MemoryStore):
    """Deletes nothing while it is full of other work."""

    is_busy = True

    def delete(self, names):
        if self.is_busy:
            raise Unavailable("503")
        super().delete(names)


@pytest.mark.usefixtures("without_patience")
def test_a_failed_deletion_blocks_no_writer_and_is_repeated_later():
    store = KeepsAll()
    machine = Machine(store, segment_bytes=1)
    machine.commit(b"1")
    machine.commit(b"2")
    first, second = machine.journal.sealed()
    machine.journal.recycle(first[0])
    assert machine.journal.sealed() == [second]
    assert Place(1, first[0]) in list_places(store, LOG, Place(0, 0))
    assert Machine(store, first[1]).found == [b"2"]

    machine, store.is_busy = Machine(store, first[1], segment_bytes=1), False
    machine.journal.seal()
    machine.journal.recycle(machine.journal.sealed()[0][0])
    assert [place for place, is_fence in list_places(store, LOG, Place(0, 0)).items() if not is_fence] == []


@pytest.mark.usefixtures("without_patience")
def test_a_failed_recycling_can_be_repeated():
    store = Outage(MemoryStore())
    machine = Machine(store, segment_bytes=1)
    machine.commit(b"1")
    machine.commit(b"2")
    first, second = machine.journal.sealed()
    store.is_over.clear()
    with pytest.raises(Obstacle, match="the object store does not answer"):
        machine.journal.recycle(first[0])
    store.is_over.set()
    assert machine.journal.sealed() == [first, second]
    assert machine.read() == [b"1", b"2"]
    machine.journal.recycle(first[0])
    assert machine.journal.sealed() == [second]


def test_a_segment_may_span_empty_generations():
    store = MemoryStore()
    expected = []
    for number in range(4):
        machine = Machine(store)
        if number != 2:
            machine.commit(b"%d" % number)
            expected.append(b"%d" % number)
    zombie = machine
    machine = Machine(store)
    assert machine.found == expected
    with pytest.raises(JournalFailed):
        zombie.commit(b"never")
    machine.journal.seal()
    (segment,) = machine.journal.sealed()
    assert [
        values_of(read_header(batch), batch)[0] for _, _, batch in machine.journal.sealed_entries(*segment)
    ] == expected
    machine.journal.recycle(segment[0])
    machine.journal.seal()
    assert machine.journal.sealed() == []
    assert Machine(store, segment[1]).found == []


def test_startup_without_the_archived_slots_is_refused():
    store = MemoryStore()
    machine = Machine(store, segment_bytes=1)
    machine.commit(b"archived")
    archive(machine)
    with pytest.raises(JournalCorrupt, match="neither in wal/1 nor in the archive"):
        Machine(store)


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_an_unreadable_commit_refuses_the_start(damage):
    store = MemoryStore()
    machine = Machine(store)
    for value in (b"1", b"2", b"3"):
        machine.commit(value)
    name = slot_name(LOG, Place(1, machine.journal.next_lsn // lsn_of(1) - 2))
    data = bytearray(store.read(name, 0, 1 << 20).data)
    successor_sees = take_over(store, LOG, 1, lambda: bytes(16))
    store.delete([name])
    if damage == "changed":
        data[60] ^= 1
        store.create(name, [data])
    journal = ObjectJournal(store, LOG, 1, successor_sees, TakenDirectory.take(Path("/d"), MemoryFileSystem()))
    with pytest.raises(JournalCorrupt):
        list(journal.recover())


class Outage:
    """A store that does not answer for a while."""

    def __init__(self, store):
        self._store = store
        self.is_over = threading.Event()
        self.is_over.set()

    def __getattr__(self, name):
        def call(*arguments):
            if not self.is_over.is_set():
                raise Unavailable("503")
            return getattr(self._store, name)(*arguments)

        return call


def test_commits_wait_for_an_outage_to_end_and_new_writes_are_refused():
    store = Outage(MemoryStore())
    machine = Machine(store)
    machine.commit(b"before")
    ticket = machine.write(b"during")
    store.is_over.clear()
    thread = threading.Thread(target=machine.sync, args=(ticket,))
    thread.start()
    while machine.journal.room.obstacle is None:
        thread.join(0.01)
    assert thread.is_alive()
    with pytest.raises(Obstacle, match="the object store does not answer"):
        machine.journal.read(machine.logs[0].index.places[0], 10)
    store.is_over.set()
    thread.join(SECONDS_MAX)
    assert machine.journal.room.obstacle is None
    assert machine.read() == [b"before", b"during"]


def test_commits_waiting_for_the_store_fail_at_shutdown():
    store = Outage(MemoryStore())
    machine = Machine(store)
    store.is_over.clear()
    failed = []

    def sync():
        with pytest.raises(JournalFailed) as error:
            machine.sync(machine.write(b"lost"))
        failed.append(error)

    thread = threading.Thread(target=sync)
    thread.start()
    machine.journal.close()
    thread.join(SECONDS_MAX)
    assert len(failed) == 1


def test_a_writer_waits_while_too_much_waits_for_the_archive():
    machine = Machine(MemoryStore(), segment_bytes=1)
    machine.journal.attach_archiver(2)
    machine.commit(b"1")
    machine.commit(b"2")
    thread = threading.Thread(target=machine.commit, args=(b"3",))
    thread.start()
    machine.journal.archive_waits(OSError("no space"))
    while machine.journal.room.obstacle is None:
        thread.join(0.01)
    machine.journal.archive_waits(None)
    thread.join(0.05)
    assert thread.is_alive()
    assert machine.journal.room.obstacle is None
    machine.journal.recycle(machine.journal.sealed()[0][0])
    thread.join(SECONDS_MAX)
    assert machine.manager.find("topic", 0).high_watermark == 3


def test_a_durable_commit_does_not_clear_the_obstacle_of_the_archive():
    machine = Machine(MemoryStore(), segment_bytes=1)
    machine.journal.attach_archiver(2)
    machine.commit(b"1")
    ticket = machine.write(b"2")
    thread = threading.Thread(target=machine.commit, args=(b"3",))
    thread.start()
    machine.journal.archive_waits(OSError("no space"))
    while machine.journal.room.obstacle is None:
        thread.join(0.01)
    machine.sync(ticket)
    assert machine.journal.room.obstacle is not None
    machine.journal.archive_waits(None)
    machine.journal.recycle(machine.journal.sealed()[0][0])
    thread.join(SECONDS_MAX)
    assert machine.manager.find("topic", 0).high_watermark == 3


def test_archived_slots_leave_the_cache():
    machine = Machine(MemoryStore(), segment_bytes=1, cache_bytes_max=1 << 20)
    for value in (b"1", b"2", b"3"):
        machine.commit(value)
    slots = [number for number, _ in machine.journal.sealed()]
    machine.journal.recycle(slots[-2])
    kept = [machine.journal._cache.whole(slot) is not None for slot in slots]
    assert kept == [False] * (len(slots) - 1) + [True]


def test_a_writer_waiting_for_the_archive_fails_after_a_takeover():
    """Nothing is archived any more, so no other event would wake it."""
    store = MemoryStore()
    machine = Machine(store, segment_bytes=1)
    machine.journal.attach_archiver(2)
    machine.commit(b"1")
    under_way, failures = machine.write(b"2"), []

    def write():
        try:
            machine.write(b"3")
        except JournalFailed as error:
            failures.append(str(error))

    thread = threading.Thread(target=write)
    thread.start()
    while not machine.journal._changed._waiters:
        thread.join(0.01)
    Machine(store)
    with pytest.raises(JournalFailed):
        machine.sync(under_way)
    thread.join(SECONDS_MAX)
    assert failures == ["the journal failed earlier: another broker took over as generation 2"]


@pytest.mark.parametrize("end", [ObjectJournal.close, ObjectJournal.detach_archiver])
def test_a_writer_waiting_for_the_archive_fails_when_the_archiver_ends(end):
    machine = Machine(MemoryStore(), segment_bytes=1)
    machine.journal.attach_archiver(1)
    machine.commit(b"1")
    failures = []

    def write():
        try:
            machine.write(b"2")
        except JournalFailed as error:
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    while not machine.journal._changed._waiters:
        thread.join(0.01)
    end(machine.journal)
    thread.join(SECONDS_MAX)
    assert len(failures) == 1


def test_slots_of_a_predecessor_are_recycled_under_its_generation():
    store = MemoryStore()
    predecessor = Machine(store, segment_bytes=1)
    predecessor.commit(b"1")
    predecessor.commit(b"2")
    successor = Machine(store, segment_bytes=1)
    (number, end_lsn), _ = successor.journal.sealed()
    successor.journal.recycle(number)
    assert read_boundary(store, LOG).place == Place(predecessor.journal.generation, number + 1)
    assert Machine(store, end_lsn).found == [b"2"]


def test_an_archive_ahead_of_the_journal_refuses_the_start():
    """Otherwise new entries would count as archived."""
    store = MemoryStore()
    Machine(store).commit(b"1")
    begins = lsn_of(3)
    successor = Machine(store, begins)
    assert (successor.found, successor.journal.next_lsn) == ([], begins)
    for slot in (5, 1_000):
        with pytest.raises(JournalCorrupt, match="ends at slot"):
            Machine(store, lsn_of(slot))
