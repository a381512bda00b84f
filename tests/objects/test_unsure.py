"""Whatever happens to requests and answers, an object is written once and its writer knows it."""

import itertools
import os
import threading
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.objects import settled_store
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.settled_store import HEAD_BYTES, PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN, SettledStore
from pipeline_broker.objects.store import Changed, Exists, Missing, Unavailable, Unsure, list_all
from tests.crashes.lengths import examples
from tests.objects.faulty_store import WRITE_FATES, FaultyStore
from tests.objects.impatience import give_up


def no_pause(seconds, error): ...


def content(writer, number, size=HEAD_BYTES):
    """Return a content of one write only: its head has a nonce of the writer and a number."""
    return (b"%016d%016d" % (writer, number)).ljust(size, b".")


class Script:
    """Dice that return the given results, then the first choice each time."""

    def __init__(self, *fates):
        self._fates = list(fates)

    def __call__(self, choices):
        if self._fates and self._fates[0] in choices:
            return self._fates.pop(0)
        return choices[0]


class Judging(SettledStore):
    """The real store; the tests below sabotage its judgement."""


class TakesExistsForSuccess(Judging):
    def create(self, name, parts):
        try:
            return super().create(name, parts)
        except Exists:
            return self._store.read(name, 0, 1).tag


class TakesExistsForForeign(Judging):
    def create(self, name, parts):
        while True:
            try:
                return self._store.create(name, parts)
            except (Unavailable, Unsure):
                continue


class TakesChangedForForeign(Judging):
    def replace(self, name, parts, tag):
        while True:
            try:
                return self._store.replace(name, parts, tag)
            except (Unavailable, Unsure):
                continue


class TakesChangedForSuccess(Judging):
    def replace(self, name, parts, tag):
        try:
            return super().replace(name, parts, tag)
        except Changed:
            return self._store.read(name, 0, 1).tag


def run_creators(dice, judge):
    """Let two writers create the same names in turn. Each must know its own objects, which must have its bytes."""
    store = MemoryStore()
    faulty = FaultyStore(store, dice)
    writers = [judge(faulty, no_pause) for _ in range(2)]
    owner = {}
    for number in range(4):
        name = f"slot/{number}"
        for writer in (number % 2, 1 - number % 2):
            try:
                tag = writers[writer].create(name, [content(writer, number)])
            except Exists:
                continue
            assert owner.setdefault(name, writer) == writer, f"two writers believe that {name} is theirs"
            assert store.read(name, 0, 1).tag == tag
    while faulty.late:
        faulty._apply_late()
    for number in range(4):
        name = f"slot/{number}"
        assert name in owner, f"{name} has no writer that knows it"
        assert bytes(store.read(name, 0, 1 << 20).data) == content(owner[name], number)
    assert [each.name for each in list_all(store, "")] == sorted(owner)


def run_replacers(dice, judge):
    """Let a writer increment an object that another one changes once. The answers must match the events, in order."""
    store = MemoryStore()
    faulty = FaultyStore(store, dice)
    one, other = judge(faulty, no_pause), SettledStore(store, no_pause)
    tag = store.create("counter", [content(0, 0)])
    written = [content(0, 0)]
    for number in range(1, 5):
        try:
            tag = one.replace("counter", [content(0, number)], tag)
        except Changed:
            raise AssertionError("no other writer has changed it") from None
        written.append(content(0, number))
        assert bytes(store.read("counter", 0, HEAD_BYTES).data) == written[-1]
    other.replace("counter", [content(1, 9)], store.read("counter", 0, 1).tag)
    with pytest.raises(Changed):
        one.replace("counter", [content(0, 5)], tag)
    while faulty.late:
        faulty._apply_late()
    assert bytes(store.read("counter", 0, HEAD_BYTES).data) == content(1, 9), "a late copy has undone another's writing"


@st.composite
def dice(draw):
    """Draw fates, good ones in the end, so that every run ends."""
    budget = [draw(st.integers(0, 25))]

    def throw(choices):
        choices = list(choices)
        if budget[0] == 0:
            return choices[0]
        budget[0] -= 1
        return draw(st.sampled_from(choices))

    return throw


@settings(max_examples=examples(300), deadline=None)
@given(dice())
def test_a_created_object_has_one_writer_that_knows_it(throw):
    run_creators(throw, Judging)


@settings(max_examples=examples(300), deadline=None)
@given(dice())
def test_a_replaced_object_is_replaced_once_and_in_order(throw):
    run_replacers(throw, Judging)


@pytest.mark.parametrize("fates", list(itertools.product(WRITE_FATES, repeat=2)), ids=" then ".join)
def test_each_fault_followed_by_each_is_settled(fates):
    run_creators(Script(*fates), Judging)
    run_replacers(Script(*fates), Judging)


@pytest.mark.parametrize(
    ("run", "judge"),
    [
        (run_creators, TakesExistsForSuccess),
        (run_creators, TakesExistsForForeign),
        (run_replacers, TakesChangedForForeign),
        (run_replacers, TakesChangedForSuccess),
    ],
)
def test_a_wrong_judgement_is_noticed(run, judge):
    """The runs above fail for a store that judges by the error alone."""
    noticed = []
    for fates in itertools.product(WRITE_FATES, repeat=2):
        try:
            run(Script(*fates), judge)
        except (AssertionError, pytest.fail.Exception):
            noticed.append(fates)
    assert noticed


ASKED = {
    "read": lambda store: bytes(store.read("a", 1, 2).data) == b"bc",
    "read_end": lambda store: bytes(store.read_end("a", 2).data) == b"de",
    "list": lambda store: [each.name for each in list_all(store, "")] == ["a", "b", "c"],
    "delete": lambda store: store.delete(["b", "c"]) is None and [x.name for x in list_all(store, "")] == ["a"],
    "upload": lambda store: store.upload("b", [b"x"]) is None and bytes(store.read("b", 0, 9).data) == b"x",
}


@pytest.mark.parametrize("operation", ASKED)
@pytest.mark.parametrize("fate", ["refused", "lost after", "in part"])
def test_reads_are_retried(operation, fate):
    sound = MemoryStore()
    for name in ("a", "b", "c"):
        sound.create(name, [b"abcde"])
    faulty = FaultyStore(sound, Script(fate, fate))

    assert ASKED[operation](SettledStore(faulty, no_pause))


def test_a_missing_object_is_not_retried():
    with pytest.raises(Missing):
        SettledStore(MemoryStore(), pytest.fail).read("none", 0, 1)


def test_the_waits_double_up_to_a_bound_and_end_when_the_caller_gives_up():
    class Down(MemoryStore):
        def create(self, name, parts):
            raise Unavailable("down")

    waits = []

    def pause(seconds, error):
        waits.append(seconds)
        if len(waits) == 9:
            raise error

    with pytest.raises(Unavailable, match="down"):
        SettledStore(Down(), pause).create("a", [b"x"])
    assert waits == [PAUSE_SECONDS_MIN * 2**n for n in range(6)] + [PAUSE_SECONDS_MAX] * 3


def test_a_write_is_not_repeated_before_the_pause_whatever_its_error():
    class Lost(MemoryStore):
        """Loses every write, and is unsure about it."""

        sent = 0

        def create(self, name, parts):
            self.sent += 1
            assert self.sent < 9, "it is sent without a wait"
            raise Unsure("no answer in time")

        def replace(self, name, parts, tag):
            return self.create(name, parts)

    store, sent = Lost(), []

    def pause(seconds, error):
        sent.append((seconds, store.sent))
        if len(sent) == 3:
            raise error

    for is_new in (True, False):
        store, sent = Lost(), []
        settled, tag = SettledStore(store, pause), MemoryStore.create(store, "a", [b"before"])
        with pytest.raises(Unsure):
            _ = settled.create("b", [b"x"]) if is_new else settled.replace("a", [b"x"], tag)
        assert sent == [(PAUSE_SECONDS_MIN * 2**n, n + 1) for n in range(3)]


def test_a_brief_wait_gives_up_after_a_second_and_a_half(monkeypatch):
    class Down(MemoryStore):
        def read(self, name, start, size_bytes):
            raise Unavailable("down")

    waits = []
    monkeypatch.setattr(settled_store, "time", SimpleNamespace(sleep=waits.append))
    with pytest.raises(Unavailable):
        SettledStore(Down(), settled_store.pause_briefly).read("a", 0, 1)
    assert sum(waits) == pytest.approx(1.55)


def test_a_wait_ends_when_the_caller_stops():
    stopping = threading.Event()
    pause = settled_store.pause_until(stopping)
    pause(0.0, Unavailable("down"))
    stopping.set()
    with pytest.raises(Unavailable):
        pause(30.0, Unavailable("down"))


def test_giving_up_after_an_unsure_answer_raises_unsure():
    faulty = FaultyStore(MemoryStore(), Script("late"))

    with pytest.raises(Unsure):
        SettledStore(faulty, give_up).create("a", [os.urandom(99)])


@pytest.mark.parametrize("size", [0, 1, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 1, 300])
def test_an_object_of_any_size_is_recognized(size):
    whole = content(1, 1, max(size, 32))[:size]
    for cut in {0, size // 2, size}:
        faulty = FaultyStore(MemoryStore(), Script("lost after"))
        SettledStore(faulty, no_pause).create("a", [whole[:cut], memoryview(whole)[cut:]])
        assert [fate for operation, fate in faulty.fates if operation == "create"] == ["lost after"]


def test_a_shorter_object_with_the_same_head_is_foreign():
    store = MemoryStore()
    store.create("a", [content(1, 1, 100)])
    with pytest.raises(Exists):
        SettledStore(store, no_pause).create("a", [content(1, 1, 101)])


def test_a_replace_of_a_deleted_object_is_not_repeated_forever():
    def never(seconds, error):
        raise AssertionError(f"sent again after {error!r}")

    store = SettledStore(MemoryStore(), never)
    tag = store.create("a", [content(1, 1)])
    store.delete(["a"])
    with pytest.raises(Changed):
        store.replace("a", [content(1, 2)], tag)
