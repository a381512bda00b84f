"""A store in a directory: what takes the place of a file, and what a power cut leaves of one that went."""

import pytest

from tests.files.memory_file_system import MemoryFileSystem
from tests.log.archive.test_store import memory_store


def goes_by_its_name(store):
    store.delete(["t-0/a.log"])


def goes_with_its_folder(store):
    store.delete_folder("t-0")


def is_replaced(store):
    store.write("t-0/b.log", [b"another"], 0)
    store.replace("t-0/b.log", "t-0/a.log")
    store.delete(["t-0/a.log"])


@pytest.mark.parametrize("goes", [goes_by_its_name, goes_with_its_folder, is_replaced])
@pytest.mark.parametrize("is_synced", [False, True])
def test_a_file_that_is_written_anew_has_nothing_to_do_with_the_one_that_had_its_name(goes, is_synced):
    """Whatever of it was open for reading or writing, and whatever was known to be durable of its folder."""
    files = MemoryFileSystem()
    store = memory_store(files)
    store.write("t-0/a.log", [b"the former one"], 0)
    if is_synced:
        store.sync(["t-0/a.log"])
    store.read("t-0/a.log", 1, 0)
    goes(store)
    assert store.read_cached("t-0/a.log", 1, 0) is None
    store.write("t-0/a.log", [b"new"], 0)
    store.sync(["t-0/a.log"])
    assert bytes(store.read("t-0/a.log", 100, 0)) == b"new"
    files.power_cut(lambda n: 0)
    again = memory_store(files)
    assert bytes(again.read("t-0/a.log", 100, 0)) == b"new"
    assert again.names("t-0") == ["a.log"]


def test_what_was_deleted_does_not_come_back_with_a_power_cut():
    files = MemoryFileSystem()
    store = memory_store(files)
    store.write("t-0/a.log", [b"content"], 0)
    store.sync(["t-0/a.log"])
    store.delete(["t-0/a.log"])
    files.power_cut(lambda n: 0)
    assert memory_store(files).names("t-0") == []
