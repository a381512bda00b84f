"""Names of objects, and operations that take several requests."""

import pytest

from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import NAME_BYTES_MAX, Unavailable, checked_name, checked_prefix, list_all


@pytest.mark.parametrize("name", ["a", "wal/7/00000000000000000001", "a.b-c_D9/..x", "a" * NAME_BYTES_MAX])
def test_a_valid_name_is_accepted(name):
    assert checked_name(name) == name
    assert checked_prefix(name[:100] + "/") == name[:100] + "/"


@pytest.mark.parametrize(
    "name",
    ["", "/a", "a/", "a//b", ".", "..", "a/../b", "a/..", "a b", "a\n", "ä", "a\x00", "a" * (NAME_BYTES_MAX + 1)],
)
def test_a_name_that_stores_could_normalize_is_refused(name):
    with pytest.raises(ValueError):
        checked_name(name)


@pytest.mark.parametrize("prefix", ["a", "/", "a//", "../"])
def test_a_prefix_is_of_whole_parts(prefix):
    with pytest.raises(ValueError):
        checked_prefix(prefix)


def test_all_names_are_below_the_empty_prefix():
    assert checked_prefix("") == ""


class SamePage(MemoryStore):
    def list(self, prefix, after=""):
        return super().list(prefix, "")


def test_a_store_that_repeats_a_page_is_refused():
    store = SamePage()
    store.create("log/1", [b"x"])
    with pytest.raises(Unavailable, match="does not list 'log/' in order"):
        list(list_all(store, "log/"))
