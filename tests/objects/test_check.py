"""A store that breaks a guarantee is refused in time, with one line that names the guarantee."""

import threading
import time

import pytest

from pipeline_broker.objects.check import check_store
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.opening import StoreRefused
from pipeline_broker.objects.store import Changed, Exists, Missing, Unavailable, Unsure, list_all
from tests.objects.faulty_store import FaultyStore


class IgnoresIfNoneMatch(MemoryStore):
    def create(self, name, parts):
        self.upload(name, parts)
        return self.read(name, 0, 1).tag


class IgnoresIfMatch(MemoryStore):
    def replace(self, name, parts, tag):
        return super().replace(name, parts, self.read(name, 0, 1).tag)


class ReplacesMissingObjects(MemoryStore):
    def replace(self, name, parts, tag):
        try:
            return super().replace(name, parts, tag)
        except Changed:
            if any(each.name == name for each in list_all(self, "")):
                raise
            return self.create(name, parts)


class LosesRaces(MemoryStore):
    def create(self, name, parts):
        try:
            self.read(name, 0, 1)
        except Missing:
            time.sleep(0.05)
            self.upload(name, parts)
            return self.read(name, 0, 1).tag
        raise Exists(name)


class ListsLate(MemoryStore):
    def list(self, prefix, after=""):
        return super().list(prefix, after)[:-1]


class IgnoresAfter(MemoryStore):
    def list(self, prefix, after=""):
        return [] if "replaced" in after else super().list(prefix, "" if "raced" not in after else after)


class Truncates(MemoryStore):
    def read(self, name, start, size_bytes):
        part = super().read(name, start, size_bytes)
        return part._replace(data=part.data[:64])


class ReadsWrongEnd(MemoryStore):
    def read_end(self, name, size_bytes):
        return self.read(name, 0, size_bytes)


class KeepsDeletedObjects(MemoryStore):
    def delete(self, names):
        pass


class ForbidsWriting(MemoryStore):
    def create(self, name, parts):
        raise Unsure("403\nno access")


class IsNotThere(MemoryStore):
    def create(self, name, parts):
        raise Unavailable("connection refused")


BROKEN = {
    IgnoresIfNoneMatch: "ignores If-None-Match",
    IgnoresIfMatch: "ignores If-Match",
    ReplacesMissingObjects: "replaces a missing object",
    LosesRaces: "accepted 8 of 8 concurrent",
    ListsLate: "lists",
    IgnoresAfter: "cannot list the objects after",
    Truncates: "content that differs",
    ReadsWrongEnd: "an end of an object that differs",
    KeepsDeletedObjects: "a deleted object",
}


@pytest.mark.parametrize("store", BROKEN)
def test_a_store_that_breaks_a_guarantee_is_refused(store):
    broken = store()
    with pytest.raises(StoreRefused, match=BROKEN[store]) as refused:
        check_store(broken)
    assert "\n" not in str(refused.value)
    if store is not KeepsDeletedObjects:
        assert broken.list("check/") == [], "the check has left its own objects there"


@pytest.mark.parametrize("store", [ForbidsWriting, IsNotThere])
def test_a_store_that_refuses_everything_is_refused_after_some_tries(store):
    began = time.monotonic()
    with pytest.raises(StoreRefused, match=r"403|connection refused") as refused:
        check_store(store())
    assert time.monotonic() - began < 9
    assert "\n" not in str(refused.value)


def test_a_store_that_does_not_answer_is_refused_in_time():
    answering = threading.Event()

    class Hangs(MemoryStore):
        def create(self, name, parts):
            answering.wait(30)
            return super().create(name, parts)

    try:
        with pytest.raises(StoreRefused, match=r"no answer within 0\.2 s"):
            check_store(Hangs(), seconds_max=0.2)
    finally:
        answering.set()


def test_a_store_that_fails_at_first_is_accepted():
    fates = iter(["refused", "lost after", "lost before", "twice", "conflict", "late"])
    store = MemoryStore()
    faulty = FaultyStore(store, lambda choices: next((fate for fate in fates if fate in choices), choices[0]))

    check_store(faulty)

    assert list(list_all(store, "")) == []
