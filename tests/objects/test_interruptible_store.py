"""Callers that wait for a store that does not answer are released on request."""

import gc
import threading
import time
from types import SimpleNamespace

import pytest

from pipeline_broker.objects import settled_store
from pipeline_broker.objects.interruptible_store import InterruptibleStore
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.settled_store import SettledStore, pause_briefly
from pipeline_broker.objects.store import Exists, Interrupted, Missing, Unsure

SECONDS_MAX = 10.0
CALLS = {
    "create": (("a", [b"x"]), Unsure),
    "replace": (("a", [b"x"], "1"), Unsure),
    "read": (("a", 0, 1), Interrupted),
    "read_end": (("a", 1), Interrupted),
    "list": (("",), Interrupted),
    "delete": ((["a"],), Interrupted),
    "upload": (("a", [b"x"]), Interrupted),
}


class BlackHole(MemoryStore):
    def __init__(self):
        super().__init__()
        self.asked = threading.Semaphore(0)
        self.goes_on = threading.Event()

    def __getattribute__(self, name):
        method = super().__getattribute__(name)
        if name not in CALLS:
            return method

        def wait(*arguments):
            self.asked.release()
            self.goes_on.wait(SECONDS_MAX)
            return method(*arguments)

        return wait


def threads():
    return [each for each in threading.enumerate() if each.name == "object-store"]


def wait_until_ended(before):
    deadline = time.monotonic() + SECONDS_MAX
    while set(threads()) - set(before):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_answers_and_errors_are_those_of_the_store():
    before = threads()
    store = InterruptibleStore(MemoryStore())
    tag = store.create("a", [b"one"])
    with pytest.raises(Exists):
        store.create("a", [b"two"])
    store.replace("a", [b"two"], tag)
    assert (store.read("a", 0, 9).data, store.read_end("a", 2).data) == (b"two", b"wo")
    store.upload("b", [b"x"])
    assert [each.name for each in store.list("")] == ["a", "b"]
    store.delete(["a"])
    with pytest.raises(Missing):
        store.read("a", 0, 1)
    assert len(threads()) == len(before) + 1  # one caller needs one
    del store
    gc.collect()
    wait_until_ended(before)


@pytest.mark.parametrize("call", CALLS)
def test_interrupted_callers_learn_what_is_known(call):
    before = threads()
    hole = BlackHole()
    store = InterruptibleStore(hole)
    arguments, error = CALLS[call]
    caught = []

    def ask():
        with pytest.raises(error):
            getattr(store, call)(*arguments)
        caught.append(call)

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for each in asking:
        each.start()
    for _ in asking:
        hole.asked.acquire(timeout=SECONDS_MAX)
    store.interrupt()
    for each in asking:
        each.join(SECONDS_MAX)
    assert caught == [call] * 3
    with pytest.raises(Interrupted):
        getattr(store, call)(*arguments)
    hole.goes_on.set()
    wait_until_ended(before)


@pytest.mark.parametrize("call", CALLS)
def test_an_interrupted_request_is_not_retried(call, monkeypatch):
    """An upload in flight at shutdown used to delay it by the 1.5 s of all tries."""
    paused = []
    monkeypatch.setattr(settled_store, "time", SimpleNamespace(sleep=paused.append))
    hole = BlackHole()
    store = InterruptibleStore(hole)
    arguments, _ = CALLS[call]
    ended = []

    def ask():
        with pytest.raises(Interrupted):
            getattr(SettledStore(store, pause_briefly), call)(*arguments)
        ended.append(call)

    asking = threading.Thread(target=ask)
    asking.start()
    hole.asked.acquire(timeout=SECONDS_MAX)
    store.interrupt()
    asking.join(SECONDS_MAX)
    assert (ended, paused) == ([call], [])
    hole.goes_on.set()
