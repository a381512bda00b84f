"""Files in bulk objects: requests, kills at any request, and the deletion of objects.

Longer than most files: all tests watch the requests of one store.
"""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.files.errors import Obstacle, is_passing
from pipeline_broker.log.archive.objects import object_store as tested
from pipeline_broker.log.archive.objects.file_map import MERGED_RANGES, Change, Range
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import Missing, Unavailable, list_all
from tests.crashes.lengths import examples
from tests.log.archive.objects.object_stores import BytesLog, object_store, reopened

NAMES = ("t-0/a.log", "t-0/b.index", "u-1/a.log")


class Ended(Exception):
    """The process is killed at this request."""


class Watched(MemoryStore):
    """Records the requests; `before` is called first."""

    def __init__(self):
        super().__init__()
        self.asked, self.deleted = [], []
        self.before = lambda operation: None

    def upload(self, name, parts):
        self._note("upload")
        super().upload(name, parts)
        self._note("uploaded")

    def read(self, name, start, size_bytes):
        self._note("read")
        return super().read(name, start, size_bytes)

    def delete(self, names):
        if names:
            self._note("delete")
            super().delete(names)
            self.deleted += names
            self._note("deleted")

    def _note(self, operation):
        self.asked.append(operation)
        self.before(operation)


class WatchedLog(BytesLog):
    def __init__(self, commits=()):
        self.before = lambda operation: None
        super().__init__(commits)

    def commit_files(self, changes, object_sizes):
        self.before("commit")
        unused = super().commit_files(changes, object_sizes)
        self.before("committed")
        return unused


def content(store, name):
    try:
        return bytes(store.read(name, 1 << 20, 0))
    except FileNotFoundError:
        return None


def objects_of(store):
    return [name for name, _ in list_all(store, "")]


def test_a_round_over_many_files_is_one_object_and_one_commit():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects, 1 << 20)
    for number in range(100):
        store.write(f"t-{number}/a.log", [b"content"], 0)
        store.write(f"t-{number}/a.index", [b"entries"], 0)
    store.sync([f"t-{number}/a.log" for number in range(100)])

    assert objects.asked == ["upload", "uploaded"]
    assert len(log.commits) == 1
    again = reopened(log, objects)
    assert content(again, "t-77/a.log") == b"content"
    assert content(again, "t-77/a.index") == b"entries"
    assert again.folders() == store.folders()


def test_large_writes_are_uploaded_before_the_sync_and_count_after_it():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects, 10)
    store.write(NAMES[0], [b"0123456789"], 0)
    store.write(NAMES[0], [b"ab"], 10)
    assert content(store, NAMES[0]) == b"0123456789ab"
    store.close()
    assert objects.asked == ["upload", "uploaded"]
    assert content(reopened(log, objects), NAMES[0]) is None
    objects_before = objects_of(objects)
    assert objects_before == [], "an object that does not count goes with the next process"


def test_nothing_is_uploaded_and_committed_where_nothing_has_changed():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects)
    store.write(NAMES[0], [b"x"], 0)
    store.sync([NAMES[0]])
    store.sync([NAMES[0]])
    store.delete(["t-0/none"])
    assert len(log.commits) == 1
    with pytest.raises(FileNotFoundError):
        store.sync(["t-0/none"])


def test_a_file_that_took_the_place_of_another_one_is_committed_once():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects)
    store.write(NAMES[0], [b"content"], 0)
    store.replace(NAMES[0], NAMES[1])
    assert len(log.commits) == 1
    store.sync([NAMES[1]])
    store.delete([])
    assert len(log.commits) == 1
    store.close()


def test_a_replacement_deletes_the_old_object_and_uploads_no_other_file():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects, 1 << 20)
    for name in NAMES[:2]:
        store.write(name, [name.encode()], 0)
        store.sync([name])
    store.write(NAMES[2], [b"pending"], 0)
    objects.asked.clear()
    store.replace(NAMES[0], NAMES[1])
    assert objects.asked == ["delete", "deleted"]
    again = reopened(log, objects)
    assert [content(again, name) for name in NAMES] == [None, NAMES[0].encode(), None]
    store.close()


def test_objects_of_uncommitted_files_stay_and_each_is_deleted_once():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects, 10)
    store.write(NAMES[2], [b"0123456789"], 0)
    store.write(NAMES[0], [b"9876543210"], 0)
    store.replace(NAMES[0], NAMES[1])  # commits this one alone
    assert objects.deleted == []
    store.sync([NAMES[2]])
    again = reopened(log, objects, cache_bytes_max=0)
    assert [content(again, name) for name in NAMES] == [None, b"9876543210", b"0123456789"]
    store.delete([NAMES[2]])
    store.delete([NAMES[1]])
    assert (len(objects.deleted), len(set(objects.deleted)), objects_of(objects)) == (2, 2, [])
    store.close()


def test_showing_another_map_forgets_uncommitted_writes():
    objects, log = Watched(), BytesLog()
    store, other = object_store(log, objects, 10), BytesLog()
    store.write(NAMES[0], [b"012345678"], 0)
    other.commit_files([Change(NAMES[1], 0, (Range("bulk/x", 0, 7),)), Change(NAMES[2], 0)], {"bulk/x": 7})
    objects.upload("bulk/x", [b"content"])
    objects.asked.clear()
    store.show(other.files)
    assert (store.folders(), [content(store, name) for name in NAMES]) == (["t-0", "u-1"], [None, b"content", b""])
    store.write(NAMES[2], [b"01"], 0)
    assert "upload" not in objects.asked, "two bytes are in memory"
    store.sync([NAMES[2]])
    assert list(log.files.files) == [NAMES[2]]
    store.close()


def test_a_deletion_that_leaves_every_object_well_used_is_one_commit():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects, 1 << 20)
    for name in NAMES:
        store.write(name, [b"content"], 0)
    store.sync(NAMES)
    store.delete(NAMES[:1])
    assert len(log.commits) == 2
    assert content(reopened(log, objects), NAMES[1]) == b"content"
    store.close()


def test_a_range_is_cut_where_a_file_is_overwritten_within_it():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects, 1 << 20)
    store.write(NAMES[0], [b"0123456789"], 0)
    store.sync([NAMES[0]])
    store.write(NAMES[0], [b"xyz"], 4)
    assert content(reopened(log, objects), NAMES[0]) == b"0123456789", "not synced"
    store.sync([NAMES[0]])
    assert content(reopened(log, objects), NAMES[0]) == b"0123xyz" == content(store, NAMES[0])


def test_many_small_ranges_become_one_and_their_objects_are_deleted():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects)
    expected = b""
    for number in range(4 * MERGED_RANGES):
        piece = b"piece %03d," % number
        store.write(NAMES[0], [piece], len(expected))
        expected += piece
        store.sync([NAMES[0]])
        assert len(log.files.files[NAMES[0]]) <= 2 * MERGED_RANGES
    assert content(store, NAMES[0]) == expected == content(reopened(log, objects), NAMES[0])
    assert set(objects_of(objects)) == set(log.files.object_sizes)
    assert len(objects_of(objects)) <= 2 * MERGED_RANGES
    store.close()


def test_a_mostly_unused_object_is_copied_and_deleted():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects, 1 << 20)
    for name, size in ((NAMES[0], 100), (NAMES[1], 30), (NAMES[2], 40)):
        store.write(name, [name.encode() * size], 0)
    store.sync(NAMES)
    (first,) = objects_of(objects)
    store.write("v-0/a.log", [b"other"], 0)
    store.sync(["v-0/a.log"])
    store.delete([NAMES[0]])
    assert first not in objects_of(objects)

    store.write("v-0/a.log", [b" more"], 5)
    store.sync(["v-0/a.log"])
    again = reopened(log, objects)
    assert [content(again, name) for name in (*NAMES, "v-0/a.log")] == [
        None,
        NAMES[1].encode() * 30,
        NAMES[2].encode() * 40,
        b"other more",
    ]
    store.close()


@pytest.mark.parametrize(("more_bytes", "stays"), [(0, True), (1, False)])
def test_an_object_that_is_half_used_stays_and_one_that_is_used_less_is_copied(more_bytes, stays):
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects, 1 << 20)
    store.write(NAMES[0], [bytes(10 + more_bytes)], 0)
    store.write(NAMES[1], [b"0123456789"], 0)
    store.sync(NAMES[:2])
    before = objects_of(objects)
    store.delete([NAMES[0]])
    assert (objects_of(objects) == before) is stays
    assert content(reopened(log, objects), NAMES[1]) == b"0123456789"
    store.close()


def test_copying_is_bounded_and_continues_with_the_next_sync(monkeypatch):
    monkeypatch.setattr(tested, "COPIED_BYTES_MAX", 10)
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects, 1 << 20)
    for name, size in zip(NAMES, (100, 10, 10), strict=True):
        store.write(name, [bytes(size)], 0)
    store.sync(NAMES)
    (first,) = objects_of(objects)
    store.delete([NAMES[0]])
    assert {each.object_name == first for each in log.files.files[NAMES[1]]} == {False}
    assert {each.object_name == first for each in log.files.files[NAMES[2]]} == {True}
    store.write(NAMES[1], [b"x"], 10)
    store.sync(NAMES[1:])
    assert first not in objects_of(objects)
    assert content(reopened(log, objects), NAMES[2]) == bytes(10)
    store.close()


def test_a_sync_merges_few_files_and_the_next_one_others(monkeypatch):
    monkeypatch.setattr(tested, "MERGES_MIN", 1)
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects)
    ranges = []
    for number in range(MERGED_RANGES + 2):
        for name in NAMES[:2]:
            store.write(name, [b"x"], number)
        store.sync(NAMES[:2])
        ranges.append([len(log.files.files[name]) for name in NAMES[:2]])
    assert ranges[-3:] == [[MERGED_RANGES] * 2, [1, MERGED_RANGES + 1], [2, 1]]
    assert [content(reopened(log, objects), name) for name in NAMES[:2]] == [b"x" * (MERGED_RANGES + 2)] * 2
    store.close()


def test_a_reader_of_a_deleted_object_finds_the_moved_bytes():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects, 1 << 20, cache_bytes_max=0)
    store.write(NAMES[0], [b"content"], 0)
    store.write(NAMES[1], [b"x" * 100], 0)
    store.sync(NAMES[:2])
    waits, goes_on = threading.Event(), threading.Event()
    found = []

    def wait(operation):
        if operation == "read" and threading.current_thread() is reader:
            objects.before = lambda _operation: None
            waits.set()
            assert goes_on.wait(10)

    reader = threading.Thread(target=lambda: found.append(content(store, NAMES[0])))
    objects.before = wait
    reader.start()
    assert waits.wait(10)
    store.delete([NAMES[1]])  # copies the file and deletes its object
    goes_on.set()
    reader.join()
    assert found == [b"content"]
    store.close()


def test_recent_writes_are_read_without_a_request():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects)
    store.write(NAMES[0], [b"content"], 0)
    store.sync([NAMES[0]])
    objects.delete(objects_of(objects))
    assert content(store, NAMES[0]) == b"content"
    store.close()


def test_a_file_whose_object_is_lost_is_missing():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects, cache_bytes_max=0)
    store.write(NAMES[0], [b"content"], 0)
    store.sync([NAMES[0]])
    objects.delete(objects_of(objects))
    with pytest.raises(FileNotFoundError):
        store.read(NAMES[0], 1, 0)


@pytest.mark.parametrize("operation", ["read", "sync", "write"])
def test_a_bucket_that_does_not_answer_is_an_obstacle_and_nothing_is_lost(operation):
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects, 20, cache_bytes_max=0)
    store.write(NAMES[0], [b"first"], 0)
    store.sync([NAMES[0]])
    store.write(NAMES[0], [b" second"], 5)

    def refuse(_operation):
        raise Unavailable("down")

    objects.before = refuse
    asks = {
        "read": lambda: store.read(NAMES[0], 5, 0),
        "sync": lambda: store.sync([NAMES[0]]),
        "write": lambda: [store.write(NAMES[1], [b"much" * 9], 0) for _ in range(tested.UPLOADS_AT_ONCE + 1)],
    }
    with pytest.raises(Obstacle, match="down") as error:
        asks[operation]()
    assert is_passing(error.value)
    objects.before = lambda _operation: None
    store.write(NAMES[0], [b" second"], 5)  # as a caller does after an error
    store.sync([NAMES[0]])
    assert content(reopened(log, objects), NAMES[0]) == b"first second"


def test_failed_deletions_are_repeated_with_the_next_ones():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects)

    def refuse(operation):
        if operation == "delete":
            raise Unavailable("down")

    for name in NAMES[:2]:
        store.write(name, [b"x"], 0)
        store.sync([name])
    objects.before = refuse
    store.delete([NAMES[0]])
    assert len(objects_of(objects)) == 2
    objects.before = lambda _operation: None
    store.delete([NAMES[1]])
    assert objects_of(objects) == []


steps = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.integers(0, 60), st.binary(min_size=0, max_size=30)),
    st.tuples(st.just("sync"), st.sampled_from(NAMES), st.just(0), st.just(b"")),
    st.tuples(st.just("delete"), st.sampled_from(NAMES), st.just(0), st.just(b"")),
    st.tuples(st.just("replace"), st.sampled_from(NAMES[:2]), st.just(0), st.just(b"")),
)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(steps, max_size=25), st.integers(0, 60))
def test_a_process_killed_at_any_request_keeps_its_synced_files(asked, requests):
    """Unsynced changes of a file exist completely or not at all, as of one moment."""
    run_and_kill(asked, requests, object_store)


def run_and_kill(asked, requests, open_store):
    objects, log = Watched(), WatchedLog()
    store = open_store(log, objects, 40)
    left = [requests]

    def end(_operation):
        left[0] -= 1
        if left[0] < 0:
            raise Ended

    objects.before = log.before = end
    seen = {}
    durable = [{}]  # the possible states
    try:
        for operation, name, position, data in asked:
            after = step(seen, operation, name, position, data)
            before = len(durable)
            if operation == "write":
                durable += durable
            else:
                durable += [{**state, **committed(seen, after, operation, name)} for state in durable]
            if operation == "delete":  # where that leaves an object mostly unused, all is committed by the way
                durable.append(after)
            carry_out(store, operation, name, min(position, len(seen.get(name, b""))), data)
            seen = after
            del durable[:before]
            assert {each: content(store, each) for each in NAMES} == {each: seen.get(each) for each in NAMES}
    except Ended:
        pass
    store.close()
    objects.before = lambda _operation: None
    again = reopened(log, objects, object_bytes_max=40)
    found = {each: content(again, each) for each in NAMES}
    assert found in [{each: state.get(each) for each in NAMES} for state in durable]
    assert set(objects_of(objects)) == set(again._log.files.object_sizes), "no unused object is left"
    for name in NAMES:  # and the store still works
        again.write(name, [b"!"], len(found[name] or b""))
    again.sync(NAMES)
    assert [content(again, name) for name in NAMES] == [(found[name] or b"") + b"!" for name in NAMES]
    again.close()


def step(seen, operation, name, position, data):
    after = dict(seen)
    if operation == "write":
        before = seen.get(name, b"")
        after[name] = before[: min(position, len(before))] + data
    elif operation == "delete":
        after.pop(name, None)
    elif operation == "replace" and other(name) in seen:
        after[name] = after.pop(other(name))
    return after


def committed(seen, after, operation, name):
    """Return the files that a commit makes durable; None for deleted ones."""
    if operation == "sync":
        return dict(seen) if name in seen else {}
    if operation == "delete":
        return {name: None}
    return {name: after[name], other(name): None} if other(name) in seen else {}


def carry_out(store, operation, name, position, data):
    if operation == "write":
        store.write(name, [data], position)
        return
    try:
        if operation == "sync":
            store.sync([name])
        elif operation == "delete":
            store.delete([name])
        else:
            store.replace(other(name), name)
    except FileNotFoundError:
        return


def other(name):
    return NAMES[1 - NAMES.index(name)]


class DeletesTooEarly(tested.ObjectSegmentStore):
    """Deletes objects before the commit that makes them unused."""

    def _commit(self, changes):
        names = {each.object_name for ranges in self._log.files.files.values() for each in ranges}
        kept = {each.object_name for name, file in self._files.items() for each in file.ranges if name not in changes}
        self._store.delete(sorted(names - kept))
        return super()._commit(changes)


class CommitsBeforeTheUpload(tested.ObjectSegmentStore):
    def _commit(self, changes):
        return super()._commit(changes)

    def _upload_all(self):
        upload, self._store.upload = self._store.upload, lambda name, parts: self._late.append((name, parts))
        self._late = []
        super()._upload_all()
        self._store.upload = upload
        self._mine = self._late

    def _delete_unused(self, gone):
        for name, parts in getattr(self, "_mine", ()):
            self._store.upload(name, parts)
        self._mine = []
        super()._delete_unused(gone)


@pytest.mark.parametrize("sabotage", [DeletesTooEarly, CommitsBeforeTheUpload])
def test_a_wrong_order_is_noticed(sabotage, monkeypatch):
    script = [("write", NAMES[0], 0, b"first"), ("sync", NAMES[0], 0, b""), ("write", NAMES[0], 0, b"second")]
    script += [("sync", NAMES[0], 0, b""), ("write", NAMES[0], 0, b"third"), ("sync", NAMES[0], 0, b"")]

    def open_store(log, objects, size):
        from pipeline_broker.objects.block_cache import BlockCache

        return sabotage(log, objects, BlockCache(objects), "bulk/first-", size)

    noticed = 0
    for requests in range(30):
        try:
            run_and_kill(script, requests, open_store)
        except (AssertionError, Missing, FileNotFoundError):
            noticed += 1
    assert noticed


def test_cached_blocks_of_a_deleted_object_are_dropped():
    objects, log = Watched(), BytesLog()
    store = object_store(log, objects)
    for name in NAMES[:2]:
        store.write(name, [b"content"], 0)
        store.sync([name])
    assert store.cache.size_bytes == 2 * len(b"content")
    store.delete([NAMES[0]])
    assert store.cache.size_bytes == len(b"content")
    store.close()
