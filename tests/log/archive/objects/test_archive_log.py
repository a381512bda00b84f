"""Commits to an archive log are read by the next owner, however the previous one ended."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.log.archive.manifest import Edit, PartitionManifest, encode_frame
from pipeline_broker.log.archive.objects import archive_log
from pipeline_broker.log.archive.objects.archive_log import (
    FILES_KEY,
    MANIFEST_KEY,
    SNAPSHOT_SLOTS,
    ArchiveLog,
    log_name,
)
from pipeline_broker.log.archive.objects.file_map import GONE, Change, Range
from pipeline_broker.log.errors import ManifestDamaged
from pipeline_broker.objects.boundary import raise_boundary, trim
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.settled_store import SettledStore
from pipeline_broker.objects.slot import SlotEntry, SlotKind
from pipeline_broker.objects.slot_writer import FencedError, WriterStopped
from pipeline_broker.objects.store import Unavailable, list_all
from tests.crashes.lengths import examples
from tests.objects.faulty_store import FaultyStore
from tests.objects.impatience import give_up

NONCES = (b"%016d" % number for number in itertools.count())


class Ended(Exception):
    """The process is killed at this request."""


def no_pause(seconds, error):
    """Time does not count here."""


def open_log(store):
    settled = SettledStore(store, no_pause)
    return ArchiveLog.take_over(settled, settled, 7, NONCES.__next__)


def edit(number):
    return Edit(number, {b"k" * 20: PartitionManifest("t-0", end_offset=number)})


def state_of(log):
    return log.files.files, log.files.object_sizes, log.manifest.lsn, dict(log.manifest.partitions)


def test_a_new_log_is_empty_and_its_commits_are_read_by_the_next_owner():
    store = MemoryStore()
    log = open_log(store)
    assert state_of(log) == ({}, {}, 0, {})
    unused = log.commit_files([Change("t-0/a.log", 0, (Range("bulk/x", 0, 9),))], {"bulk/x": 9})
    log.commit(edit(5))

    assert unused == []
    after = open_log(store)
    assert state_of(after) == state_of(log)
    assert after.manifest.lsn == 5
    assert after.commit_files([Change("t-0/a.log", GONE)], {}) == ["bulk/x"]
    assert open_log(store).files.files == {}


def test_each_node_has_a_log_of_its_own_in_the_store():
    """An earlier version's is found there."""
    store = MemoryStore()
    open_log(store).commit(edit(1))
    names = [name for name, _ in list_all(store, "")]
    assert names
    assert all(name.startswith("files/7/") for name in names)


def test_each_owner_has_its_own_generation():
    store = MemoryStore()
    assert len({open_log(store).generation for _ in range(4)}) == 4


def test_a_replaced_owner_commits_nothing():
    store = MemoryStore()
    first = open_log(store)
    first.commit(edit(1))
    second = open_log(store)

    for commit in (lambda: first.commit(edit(2)), lambda: first.commit_files([Change("t-0/a", GONE)], {})):
        with pytest.raises(FencedError):
            commit()
    assert first.manifest.lsn == 1
    second.commit(edit(3))
    assert open_log(store).manifest.lsn == 3


def test_files_of_a_commit_that_was_refused_are_as_they_were():
    store = MemoryStore()
    first = open_log(store)
    first.commit_files([Change("t-0/a.log", 0, (Range("bulk/x", 0, 9),))], {"bulk/x": 9})
    open_log(store)
    with pytest.raises(FencedError):
        first.commit_files([Change("t-0/a.log", GONE), Change("t-0/b.log", 0, (Range("bulk/y", 0, 5),))], {"bulk/y": 5})
    assert list(first.files.files) == ["t-0/a.log"]
    assert first.files.object_sizes == {"bulk/x": 9}


def test_a_closed_log_commits_nothing():
    log = open_log(MemoryStore())
    log.close()
    with pytest.raises(WriterStopped):
        log.commit(edit(1))


def commit_edit(log, number):
    log.commit(edit(number))


def commit_file(log, number):
    log.commit_files([Change("t-0/a.log", 0, (Range("bulk/x", 0, number),))], {"bulk/x": 1000})


@pytest.mark.parametrize("commit", [commit_edit, commit_file])
def test_slots_are_replaced_by_a_snapshot_and_deleted(commit):
    store = MemoryStore()
    log = open_log(store)
    for number in range(1, 5 * SNAPSHOT_SLOTS):
        commit(log, number)
        assert len(list(list_all(store, f"{log_name(7)}/"))) <= SNAPSHOT_SLOTS + 4
    assert state_of(open_log(store)) == state_of(log)


def test_startup_reads_one_snapshot_and_a_bounded_number_of_slots(monkeypatch):
    monkeypatch.setattr(archive_log, "SNAPSHOT_SLOTS", 4)
    store = MemoryStore()
    log = open_log(store)
    read = []
    for number in range(1, 10):
        log.commit(edit(number))
        read.append(len(archive_log.read_state(SettledStore(store, no_pause), 7)[1]) - 1)
    assert read == [1, 2, 3, 0, 1, 2, 3, 0, 1]


def test_a_later_snapshot_does_not_list_all_earlier_slots(monkeypatch):
    """The fences of all lives stay; a node that was started often has many."""
    monkeypatch.setattr(archive_log, "SNAPSHOT_SLOTS", 4)
    listed, first_listed = [], []

    class Listing(MemoryStore):
        def list(self, prefix, after=""):
            listed.append(after)
            return super().list(prefix, after)

    log = open_log(Listing())
    for number in range(1, 40):
        listed.clear()
        log.commit(edit(number))
        first_listed += listed[:1]
    assert first_listed == sorted(first_listed)
    assert first_listed[0] < first_listed[-1]


@settings(max_examples=examples(150), deadline=None)
@given(st.integers(0, 60), st.integers(1, 30), st.booleans())
def test_a_process_killed_at_any_request_keeps_its_confirmed_commits(requests, commits, is_applied):
    store = MemoryStore()
    left = [requests]

    class Ending(MemoryStore):
        def __getattribute__(self, name):
            if name in {"create", "replace", "read", "read_end", "list", "delete", "upload"}:
                left[0] -= 1
                if left[0] < 0 and not (is_applied and name in {"create", "delete", "replace"}):
                    raise Ended
                if left[0] < 0:

                    def carry_out(*arguments):
                        getattr(store, name)(*arguments)
                        raise Ended

                    return carry_out
                return getattr(store, name)
            return super().__getattribute__(name)

    told = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_log, "SNAPSHOT_SLOTS", 4)
        try:
            log = open_log(Ending())
            for number in range(1, commits + 1):
                log.commit(edit(number))
                told = number
        except Ended:
            pass
        assert open_log(store).manifest.lsn in {told, told + 1}


@settings(max_examples=examples(100), deadline=None)
@given(st.data())
def test_lost_late_and_doubled_answers_change_nothing(data):
    store = MemoryStore()
    budget = [data.draw(st.integers(0, 30))]

    def throw(choices):
        choices = list(choices)
        if budget[0] == 0:
            return choices[0]
        budget[0] -= 1
        return data.draw(st.sampled_from(choices))

    faulty = FaultyStore(store, throw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(archive_log, "SNAPSHOT_SLOTS", 3)
        for life in range(2):
            log = open_log(faulty)
            for number in range(1, 6):
                log.commit(edit(10 * life + number))
        faulty.settle()
        assert open_log(store).manifest.lsn == 15


@pytest.mark.parametrize("step", ["list", "read"])
def test_a_snapshot_of_the_predecessor_during_startup_is_not_missed(step):
    """A predecessor that does not know of the fence yet may delete slots that its snapshot replaced."""
    store = MemoryStore()
    predecessor = open_log(store)
    for number in range(1, SNAPSHOT_SLOTS - 1):
        predecessor.commit(edit(number))

    class Held(MemoryStore):
        """Raises the boundary and deletes slots while the successor reads the log."""

        def __init__(self):
            self.is_fenced = self.is_done = False

        def __getattribute__(self, name):
            if name not in {"create", "replace", "read", "read_end", "list", "delete", "upload"}:
                return super().__getattribute__(name)

            def carry_out(what, *arguments):
                if self.is_fenced and name == step and not what.endswith("boundary") and not self.is_done:
                    self.is_done = True
                    trim(store, log_name(7), raise_boundary(store, log_name(7), summed_up))
                self.is_fenced |= name == "create"
                return getattr(store, name)(what, *arguments)

            return carry_out

    summed_up = predecessor._put(predecessor._state.as_entries(), SlotKind.SNAPSHOT)
    held = Held()
    successor = open_log(held)
    assert held.is_done
    assert state_of(successor) == state_of(predecessor)


def test_an_owner_that_sums_up_while_it_is_fenced_is_fenced_by_the_next_try():
    store = MemoryStore()
    owner = open_log(store)

    class Overtaken(MemoryStore):
        """The owner commits until it has summed up, once, when the fencer has looked where the log begins."""

        def __init__(self):
            self.is_done = False

        def __getattribute__(self, name):
            if name == "list" and not self.is_done:
                self.is_done = True
                for number in range(1, SNAPSHOT_SLOTS + 2):
                    owner.commit(edit(number))
            return super().__getattribute__(name) if name == "is_done" else getattr(store, name)

    successor = open_log(Overtaken())
    assert successor.manifest.lsn == SNAPSHOT_SLOTS + 1
    with pytest.raises(FencedError):
        owner.commit(edit(SNAPSHOT_SLOTS + 2))


def test_startup_leaves_only_the_fences_of_earlier_owners():
    store, counts = MemoryStore(), []
    for life in range(1, 5):
        log = open_log(store)
        for number in range(4):
            log.commit(edit(10 * life + number))
        counts.append(len(list(list_all(store, f"{log_name(7)}/"))))
    assert counts == list(range(counts[0], counts[0] + 4))


@pytest.mark.parametrize(
    ("key", "data"), [(b"other", encode_frame(edit(2))), (MANIFEST_KEY, b"no edit"), (FILES_KEY, b"no changes")]
)
def test_a_slot_that_holds_something_else_refuses_the_start(key, data):
    store = MemoryStore()
    log = open_log(store)
    log.commit(edit(1))
    log._put([SlotEntry(key, b"", (data,), len(data))])
    with pytest.raises(ManifestDamaged, match=r"slot \d+ of the archive"):
        open_log(store)


def test_a_damaged_slot_refuses_the_start():
    store = MemoryStore()
    log = open_log(store)
    log.commit(edit(1))
    name = [each.name for each in list_all(store, f"{log_name(7)}/") if not each.name.endswith("boundary")][-1]
    content = bytearray(store.read(name, 0, 1 << 20).data)
    content[len(content) // 2] ^= 1
    store.upload(name, [content])
    with pytest.raises(ManifestDamaged):
        open_log(store)


def test_startup_fails_when_its_store_gives_up():
    class Down(MemoryStore):
        def read(self, name, start, size_bytes):
            raise Unavailable("down")

    settled = SettledStore(Down(), give_up)
    with pytest.raises(Unavailable):
        ArchiveLog.take_over(settled, settled, 7, NONCES.__next__)


def test_other_processes_read_the_state_while_its_owner_writes():
    store = MemoryStore()
    settled = SettledStore(store, no_pause)
    log = open_log(store)
    log.commit_files([Change("t-0/a.log", 0, (Range("bulk/x", 0, 9),))], {"bulk/x": 9})
    log.commit(edit(5))
    state, slots = archive_log.read_state(settled, 7)
    assert state_of(state) == state_of(log)
    assert [slot.contents.header.kind for slot in slots] == [SlotKind.SNAPSHOT, SlotKind.DATA, SlotKind.DATA]
    assert log.end.size_bytes == 0, "a clean shutdown has nothing to mark"
    log.commit(edit(6))
    assert archive_log.read_state(settled, 7)[0].manifest.lsn == 6
