"""The threads of a store of bulk objects, and their end."""

import threading

from pipeline_broker.log.archive.objects.file_map import MERGED_RANGES
from pipeline_broker.objects.memory_store import MemoryStore
from tests.belongings import belongings
from tests.log.archive.objects.object_stores import BytesLog, object_store, reopened

NAME = "t-0/a.log"
SECONDS_MAX = 10


class Noting(MemoryStore):
    """Says when a thread other than its maker's reads."""

    def __init__(self):
        super().__init__()
        self._maker = threading.current_thread()
        self.is_read_elsewhere = threading.Event()

    def read(self, name, start, size_bytes):
        if threading.current_thread() is not self._maker:
            self.is_read_elsewhere.set()
        return super().read(name, start, size_bytes)


def test_read_ahead_bytes_are_cached_when_they_are_read():
    objects, log = Noting(), BytesLog()
    store = object_store(log, objects)
    store.write(NAME, [b"content"], 0)
    store.sync([NAME])
    store.close()
    store = reopened(log, objects)
    assert store.read_cached(NAME, 7, 0) is None
    store.read_ahead(NAME, 3, 4)
    assert objects.is_read_elsewhere.wait(SECONDS_MAX)
    store.close()  # waits for the running threads
    assert bytes(store.read_cached(NAME, 7, 0)) == b"content"


def test_all_threads_have_ended_when_a_store_is_closed():
    before = belongings().threads
    objects, log = Noting(), BytesLog()
    store = object_store(log, objects, cache_bytes_max=0)
    for number in range(MERGED_RANGES + 1):
        store.write(NAME, [b"x"], number)
        store.sync([NAME])
    store.read_ahead(NAME, 1, 0)
    kinds = {name.rsplit("_", 1)[0] for name in belongings().threads - before}
    assert kinds == {"upload", "merge", "read ahead"}
    store.close()
    assert belongings().threads == before
