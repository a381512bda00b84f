"""Object stores at startup: failed requests are repeated for a short time."""

import time
from pathlib import Path

import pytest
import trio

from pipeline_broker.config.settings import parse_settings
from pipeline_broker.faults.faulty_store import FaultyStore
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.local.archive_place import ArchivePlace
from pipeline_broker.node.archive_store import ArchiveStore
from pipeline_broker.node.data_directory import maintenance_of, open_broker
from pipeline_broker.node.errors import StartBlockedError
from pipeline_broker.node.thread_wakeup import ThreadWakeup
from pipeline_broker.objects.directory_store import LOCK
from pipeline_broker.objects.lease import LeaseTimes
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import Unavailable
from pipeline_broker.objects.store_figures import StoreFigures
from tests.files.memory_file_system import MemoryFileSystem

TAKEOVER_SECONDS_MAX = 20.0
"""Much more than the attempts of half a second each, five for a boundary and two for a lease, and the lock."""
PLACE = ArchivePlace("s3://bucket/prefix", 1, "objects")


class UncertainStore:
    """A store that fails the first `refusals` attempts of each write."""

    def __init__(self, refusals):
        self._store = MemoryStore()
        self._refusals = refusals
        self._tries = {}

    def __getattr__(self, name):
        method = getattr(self._store, name)
        if name not in {"create", "replace", "upload", "delete"}:
            return method

        def write(what, *more):
            key = name, str(what)
            self._tries[key] = self._tries.get(key, 0) + 1
            if self._tries[key] <= self._refusals:
                raise Unavailable("503: slow down")
            return method(what, *more)

        return write


def store_of(requests):
    """Return an ArchiveStore around a store."""
    return ArchiveStore(PLACE, requests, StoreFigures(), FaultyStore(requests))


def test_an_archive_opens_although_each_write_fails_once():
    archive = store_of(UncertainStore(1)).open()
    assert archive.lsn == 0


def test_an_archive_does_not_open_if_writes_keep_failing():
    with pytest.raises(StartBlockedError, match="slow down"):
        store_of(UncertainStore(100)).open()


@pytest.mark.parametrize("held", ["wal/1", "files/1"])
def test_a_startup_continues_although_a_stopped_predecessor_was_replacing_an_object(tmp_path, held):
    """A stopped process keeps the lock of the directory in which it was replacing an object."""
    files = SystemFileSystem()
    place = ArchivePlace(f"file://{tmp_path}", 1, "objects")
    times = LeaseTimes.of(2000, 6000)
    for run in range(2):
        store = ArchiveStore.find(place, files)
        lock = files.lock(tmp_path / held / LOCK) if run else None
        began = time.monotonic()
        lease = store.claim(times)
        try:
            archive = store.open()
        finally:
            lease.close(gives_back=False)
        assert archive.lsn == 0
        assert time.monotonic() - began < TAKEOVER_SECONDS_MAX
        archive.close()
        if lock is not None:
            lock.release()


def opened(store, data):
    config, _ = parse_settings([])
    place = ArchivePlace("memory://", 1, "objects")
    return open_broker(Path(data), config, files=MemoryFileSystem(), store=ArchiveStore.of(place, store))


def test_an_overtaken_startup_does_not_report_a_damaged_journal():
    """Another broker takes over archive and journal, and archives all records, before this one gets the journal."""

    class Overtaken(MemoryStore):
        is_armed = True

        def read(self, name, start, size_bytes):
            if name == "wal/1/boundary" and self.is_armed:
                self.is_armed = False
                journal, broker = opened(self, "/faster")
                trio.run(maintenance_of(broker, ThreadWakeup()).archive_all)
                journal.close()
            return super().read(name, start, size_bytes)

    store = Overtaken()
    with pytest.raises(StartBlockedError, match="another broker took over node 1 in memory://"):
        opened(store, "/slower")
    journal, _ = opened(store, "/again")
    journal.close()
