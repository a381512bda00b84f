"""The takeover of an archive in an object store, and the deletion of leftover objects."""

from pipeline_broker.log.archive.objects.object_archive import bulk_prefix, open_object_archive
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import list_all

NODE = 1
NAME = "topic-0/00000000000000000000.log"


def no_pause(seconds, error):
    """Time does not count here."""


def commit(archive, content):
    """Have a file with this content."""
    archive.store.write(NAME, [content], 0)
    archive.store.sync([NAME])


def objects_of(store):
    return [each.name for each in list_all(store, bulk_prefix(NODE))]


def test_only_objects_that_no_commit_names_are_deleted():
    store = MemoryStore()
    first = open_object_archive(store, NODE, no_pause)
    commit(first, b"counts")
    (counted,) = objects_of(store)
    store.upload(f"{bulk_prefix(NODE)}{1:020d}-{7:020d}-{8:016x}", [b"of a killed process"])
    first.close()
    again = open_object_archive(store, NODE, no_pause)
    assert objects_of(store) == [counted]
    assert bytes(again.store.read(NAME, 100, 0)) == b"counts"
    again.close()


def test_a_start_that_was_overtaken_deletes_nothing_of_its_successor():
    """It stalled between its takeover and its search for leftovers."""
    successors = []

    class Overtaken(MemoryStore):
        def list(self, prefix, after=""):
            if prefix == bulk_prefix(NODE) and not successors:
                successors.append(None)  # it lists too
                successors[0] = open_object_archive(self, NODE, no_pause)
                commit(successors[0], b"counts")
            return super().list(prefix, after)

    store = Overtaken()
    open_object_archive(store, NODE, no_pause).close()
    (successor,) = successors
    assert bytes(successor.store.read(NAME, 100, 0)) == b"counts"
    successor.close()
    again = open_object_archive(store, NODE, no_pause)
    assert bytes(again.store.read(NAME, 100, 0)) == b"counts"
    again.close()


def test_objects_of_strangers_in_a_folder_of_the_archive_stay():
    store = MemoryStore()
    strays = [f"bulk/{NODE}/{name}" for name in ("backup", "0", f"{1:020d}-left", f"backup/{1:020d}-{7:020d}-{8:016x}")]
    for name in strays:
        store.upload(name, [b"a stranger's"])
    first = open_object_archive(store, NODE, no_pause)
    commit(first, b"counts")
    first.close()
    again = open_object_archive(store, NODE, no_pause)
    assert set(strays) < set(objects_of(store))
    assert bytes(again.store.read(NAME, 100, 0)) == b"counts"
    again.close()
