"""Concurrent uploads of a round: a commit waits for all of them, in any order and with any result."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.files.errors import Obstacle
from pipeline_broker.log.archive.objects.object_store import UPLOADS_AT_ONCE, ObjectSegmentStore
from pipeline_broker.log.journal.journal_port import StoredObject
from pipeline_broker.objects.block_cache import BlockCache
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import Unavailable, list_all
from tests.crashes.lengths import examples
from tests.log.archive.objects.object_stores import BytesLog, object_store, reopened

NAMES = ("t-0/a.log", "t-1/a.log")
PENDING_BYTES = 10
SECONDS_MAX = 20


class Held(MemoryStore):
    """Holds each upload until the test releases it or lets it fail."""

    def __init__(self):
        super().__init__()
        self._changed = threading.Condition()
        self._ends = {}  # number of an upload: the error it ends with, or None
        self.begun = 0

    def upload(self, name, parts):
        with self._changed:
            number = self.begun
            self.begun += 1
            self._changed.notify_all()
            assert self._changed.wait_for(lambda: number in self._ends, SECONDS_MAX)
            error = self._ends[number]
        if error is not None:
            raise error
        super().upload(name, parts)
        with self._changed:
            self._changed.notify_all()

    def end(self, number, error=None):
        with self._changed:
            self._ends[number] = error
            self._changed.notify_all()

    def wait_until_begun(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: self.begun >= count, SECONDS_MAX)

    def wait_until_stored(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(objects_of(self)) >= count, SECONDS_MAX)


def objects_of(store):
    return [name for name, _ in list_all(store, "bulk/")]


def content(store, name):
    try:
        return bytes(store.read(name, 1 << 20, 0))
    except FileNotFoundError:
        return None


def written(store, count):
    expected = dict.fromkeys(NAMES, b"")
    for number in range(count):
        name, data = NAMES[number % 2], b"%010d" % number
        store.write(name, [data], len(expected[name]))
        expected[name] += data
    return expected


def in_thread(work):
    """Run a function in a thread; return a list that gets its result or error."""
    ended = []

    def run():
        try:
            ended.append(work())
        except Obstacle as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, ended


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_commit_follows_all_uploads_in_any_order(order):
    objects, log = Held(), BytesLog()
    store = object_store(log, objects, PENDING_BYTES)
    expected = written(store, 2)
    objects.wait_until_begun(2)
    thread, ended = in_thread(lambda: store.sync(NAMES))
    assert {name: content(store, name) for name in NAMES} == expected, "it is read while it is on its way"
    objects.end(order[0])
    objects.wait_until_stored(1)
    thread.join(0.05)
    assert (ended, log.commits) == ([], []), "one of them is not there"
    objects.end(order[1])
    thread.join(SECONDS_MAX)
    assert (ended, len(log.commits)) == ([None], 1)
    again = reopened(log, objects)
    assert {name: content(again, name) for name in NAMES} == expected
    store.close()


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_failed_upload_changes_nothing_and_its_bytes_are_uploaded_again(failing):
    objects, log = Held(), BytesLog()
    store = object_store(log, objects, PENDING_BYTES)
    expected = written(store, 3)
    objects.wait_until_begun(3)
    for number in range(3):
        objects.end(number, Unavailable("down") if number == failing else None)
    with pytest.raises(Obstacle, match="down"):
        store.sync(NAMES)
    assert log.commits == []
    assert {name: content(store, name) for name in NAMES} == expected, "what did not arrive is in memory"

    objects.end(3)
    store.sync(NAMES)
    assert objects.begun == 4, "stored objects are not uploaded again"
    again = reopened(log, objects)
    assert {name: content(again, name) for name in NAMES} == expected
    store.close()


def test_a_process_killed_between_two_uploads_keeps_earlier_commits():
    objects, log = Held(), BytesLog()
    store = object_store(log, objects, PENDING_BYTES)
    objects.end(0)
    store.write(NAMES[0], [b"before it "], 0)
    store.sync(NAMES[:1])
    written(store, 2)
    objects.end(2)
    objects.wait_until_stored(2)

    again = reopened(log, objects)
    assert [content(again, name) for name in NAMES] == [b"before it ", None]
    assert set(objects_of(objects)) == set(again._log.files.object_sizes), "the object that had arrived goes"
    objects.end(1)
    store.close()


def test_uploads_are_bounded_and_a_further_one_waits_for_the_oldest():
    objects, log = Held(), BytesLog()
    store = object_store(log, objects, PENDING_BYTES)
    thread, ended = in_thread(lambda: written(store, UPLOADS_AT_ONCE + 1))
    objects.wait_until_begun(UPLOADS_AT_ONCE)
    for number in range(1, UPLOADS_AT_ONCE):
        objects.end(number)
    objects.wait_until_stored(UPLOADS_AT_ONCE - 1)
    thread.join(0.05)
    assert (ended, objects.begun) == ([], UPLOADS_AT_ONCE)
    objects.end(0)
    thread.join(SECONDS_MAX)
    objects.end(UPLOADS_AT_ONCE)
    store.sync(NAMES)
    assert {name: content(store, name) for name in NAMES} == ended[0]
    store.close()


def test_bytes_truncated_during_an_upload_are_deleted_with_their_object():
    """A repeated round truncates the files of an interrupted one."""
    objects, log = Held(), BytesLog()
    store = object_store(log, objects, PENDING_BYTES)
    written(store, 2)
    store.write(NAMES[0], [b"anew"], 3)
    store.delete(NAMES[1:])
    for number in range(3):
        objects.end(number)
    store.sync(NAMES[:1])
    assert content(store, NAMES[0]) == b"000anew" == content(reopened(log, objects), NAMES[0])
    assert set(objects_of(objects)) == set(log.files.object_sizes)
    store.close()


class Drawn(MemoryStore):
    """Ends each upload after a random time, with success or an error; a failed one may be stored nevertheless."""

    def __init__(self, ends):
        super().__init__()
        self._ends = dict(enumerate(ends))

    def upload(self, name, parts):
        self._carry_out(name, lambda: super(Drawn, self).upload(name, parts))

    def copy(self, source, name):
        self._carry_out(name, lambda: super(Drawn, self).copy(source, name))

    def _carry_out(self, name, request):
        number = int(name.rsplit("-", 2)[1])
        end, milliseconds = self._ends.get(number, ("well", 0))
        threading.Event().wait(milliseconds / 1000)
        if end != "refused":
            request()
        if end != "well":
            raise Unavailable(end)


STEPS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES), st.integers(0, 60), st.binary(min_size=1, max_size=30)),
    st.tuples(
        st.sampled_from(["copy", "copy without its origin"]),
        st.sampled_from(NAMES),
        st.integers(0, 60),
        st.binary(min_size=8, max_size=30),
    ),
    st.tuples(st.sampled_from(["sync", "delete"]), st.sampled_from(NAMES), st.just(0), st.just(b"")),
)
ENDS = st.lists(
    st.tuples(st.sampled_from(["well", "well", "refused", "stored, and the answer lost"]), st.integers(0, 3)),
    max_size=8,
)


def originated(objects, name, data, *, is_kept):
    """Two batches of an object of the journal, and one part of another origin between them."""
    objects._put(name, data)
    if not is_kept:
        objects.delete([name])
    origins = {0: StoredObject(name, 1, data), 2: StoredObject(name, 4, data)}
    return origins, [memoryview(data)[1:3], b"between", memoryview(data)[4:8]]


def run(steps, ends, kind):
    """Repeat each step until it succeeds, as rounds do. Synced files exist for the next process."""
    objects, log = Drawn(ends), BytesLog()
    store = kind(log, objects, BlockCache(objects), "bulk/first-", 40)
    seen, durable = {}, {name: [None] for name in NAMES}
    for number, (operation, name, position, data) in enumerate(steps):
        before = seen.get(name, b"")
        position = min(position, len(before))
        while True:
            try:
                if operation == "write":
                    store.write(name, [data], position)
                    seen[name] = before[:position] + data
                elif operation.startswith("copy"):
                    origins, parts = originated(objects, f"wal/{number}", data, is_kept=operation == "copy")
                    store.write(name, parts, position, origins)
                    seen[name] = before[:position] + b"".join(parts)
                elif operation == "delete":
                    store.delete([name])
                    seen.pop(name, None)
                    durable = {each: [*durable[each], seen.get(each)] for each in NAMES}  # all may be committed by it
                    durable[name] = [None]
                elif name in seen:
                    store.sync([name])
                    durable = {each: [seen.get(each)] for each in NAMES}
            except Obstacle:
                again = BytesLog(log.commits)
                for each in NAMES:
                    found = content(object_store(again, objects, cache_bytes_max=0), each)
                    assert found in durable[each], "the counted state has changed"
                continue
            break
        assert {each: content(store, each) for each in NAMES} == {each: seen.get(each) for each in NAMES}
    while True:
        try:
            store.sync(seen)
        except Obstacle:
            continue
        break
    store.close()
    again = reopened(log, objects, cache_bytes_max=0)
    assert {each: content(again, each) for each in NAMES} == {each: seen.get(each) for each in NAMES}
    assert set(objects_of(objects)) == set(again._log.files.object_sizes)
    again.close()


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(STEPS, max_size=20), ENDS)
def test_whatever_becomes_of_objects_on_their_way_files_are_as_they_were_written(steps, ends):
    run(steps, ends, ObjectSegmentStore)


class TrustsTheOrder(ObjectSegmentStore):
    """Takes all objects for arrived when the oldest one has."""

    def _upload_all(self):
        self._begin_upload()
        if self._uploads:
            self._end_upload()
        for upload in self._uploads:
            upload.arrived.exception = upload.arrived.result = lambda *_: None
        super()._upload_all()


class ForgetsWhatFailed(ObjectSegmentStore):
    """Takes what did not arrive for stored."""

    def _wait_for(self, upload):
        if upload.arrived.exception() is not None:
            upload.arrived.result = lambda: None
        super()._wait_for(upload)


@pytest.mark.parametrize("sabotage", [TrustsTheOrder, ForgetsWhatFailed])
def test_a_commit_that_does_not_wait_for_all_is_noticed(sabotage):
    steps = [("write", NAMES[number % 2], 100, b"x" * 30) for number in range(6)]
    steps.append(("sync", NAMES[0], 0, b""))
    with pytest.raises((AssertionError, FileNotFoundError)):
        run(steps, [("well", 0), ("refused", 3), ("well", 0)], sabotage)


def test_an_object_of_the_journal_is_copied_once_for_all_files_of_a_commit():
    objects, log = MemoryStore(), BytesLog()
    objects.create("wal/1", [b"headfirstsecondtail"])
    copied = []
    objects.copy = lambda *names: (copied.append(names[0]), MemoryStore.copy(objects, *names))
    store = object_store(log, objects, PENDING_BYTES)
    content = b"headfirstsecondtail"
    store.write(NAMES[0], [content[4:9]], 0, {0: StoredObject("wal/1", 4, content)})
    store.write(NAMES[1], [content[9:15]], 0, {0: StoredObject("wal/1", 9, content)})
    store.sync(NAMES)
    objects.delete(["wal/1"])
    assert copied == ["wal/1"]
    again = reopened(log, objects)
    assert [bytes(again.read(name, 100, 0)) for name in NAMES] == [b"first", b"second"]
    store.close()


def test_more_objects_are_copied_than_uploads_run_at_once():
    objects, log = MemoryStore(), BytesLog()
    store = object_store(log, objects, PENDING_BYTES)
    numbers = range(3 * UPLOADS_AT_ONCE)
    contents = [b"%03d" % number for number in numbers]
    for number in numbers:
        objects.create(f"wal/{number}", [contents[number]])
    origins = {number: StoredObject(f"wal/{number}", 0, contents[number]) for number in numbers}
    store.write(NAMES[0], contents, 0, origins)
    store.sync(NAMES[:1])
    assert content(reopened(log, objects), NAMES[0]) == b"".join(contents)
    store.close()
