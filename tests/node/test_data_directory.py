"""Failed startups report one line, and release the data directory."""

import errno
import os
from pathlib import Path

import attrs
import pytest

from pipeline_broker.config.settings import parse_settings
from pipeline_broker.log.archive.local.archive_place import ArchivePlace
from pipeline_broker.node.archive_store import ArchiveStore
from pipeline_broker.node.data_directory import open_broker
from pipeline_broker.node.errors import StartBlockedError, StartError
from pipeline_broker.objects.memory_store import MemoryStore
from tests.files.memory_file_system import MemoryFileSystem

DATA = Path("/data")
STEPS_MAX = 1000
"""More operations than the startup of an empty broker takes."""


def open_and_close(files, data=DATA, store=None):
    config, _ = parse_settings([])
    journal, _ = open_broker(data, config, files=files, store=store)
    journal.close()


class FailsAt:
    """Files that fail at one operation, given by its number."""

    def __init__(self, number, error):
        self.left, self.error, self.failed = number, error, None

    def __call__(self, operation, path):
        if not self.left:
            self.failed = f"{operation} {path}"
            self.left = -1
            raise OSError(self.error, os.strerror(self.error))
        self.left -= 1


@pytest.mark.parametrize("earlier_starts", [0, 1])
def test_a_failed_startup_releases_the_directory_at_every_step(earlier_starts):
    refusals = []
    for number in range(STEPS_MAX):
        files = MemoryFileSystem()
        for _ in range(earlier_starts):
            open_and_close(files)
        files.before = fault = FailsAt(number, errno.EIO)
        try:
            open_and_close(files)
        except StartError as refusal:
            refusals.append(str(refusal))
        if fault.failed is None:
            break
        open_and_close(files)
    assert number < STEPS_MAX - 1
    assert len(refusals) > 3, "otherwise this is about nothing"
    assert all(str(DATA) in refusal for refusal in refusals)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EDQUOT])
def test_a_startup_on_a_full_disk_names_the_reason(error):
    files = MemoryFileSystem()

    def before(operation, path):
        if operation == "write":
            raise OSError(error, os.strerror(error))

    files.before = before
    with pytest.raises(StartError, match="the disk of the data directory /data is full"):
        open_and_close(files)


def test_a_startup_that_its_store_fails_releases_the_directory():
    store, files = MemoryStore(), MemoryFileSystem()
    of_objects, of_disk = (ArchiveStore.of(ArchivePlace("s3://bucket", 1, wal), store) for wal in ("objects", "disk"))
    open_and_close(files, store=of_objects)
    other = Path("/other")
    for _ in range(2):  # the second attempt gets the same error: the first has released the directory
        with pytest.raises(StartError, match=r"is in s3://bucket\. Start with --wal objects"):
            open_and_close(files, other, of_disk)


def store_with_ended_broker(data=Path("/earlier")):
    """Return a store with the archive and journal of an ended broker, and the ArchiveStore for the next startup."""
    store = MemoryStore()
    found = ArchiveStore.of(ArchivePlace("s3://bucket", 1, "objects"), store)
    open_and_close(MemoryFileSystem(), data, found)
    return store, found


def test_a_standby_that_claims_the_lease_too_late_leaves_the_first_one_alone():
    store, found = store_with_ended_broker()
    late = attrs.evolve(found, sight=found.read_lease())
    open_and_close(MemoryFileSystem(), Path("/faster"), found)
    before = store.list("")
    with pytest.raises(StartBlockedError, match="another broker is taking over the journal of node 1"):
        open_and_close(MemoryFileSystem(), DATA, late)
    assert store.list("") == before, "as a fence would be"


def test_a_startup_that_cannot_read_the_archive_keeps_its_claimed_lease():
    """Otherwise each standby would fail with it at once, one after the other."""
    store, found = store_with_ended_broker()
    for name in [it.name for it in store.list("files/1/") if "/0" in it.name]:
        store.replace(name, [b"damaged"], store.read(name, 0, 1).tag)
    assert found.read_lease().is_free
    with pytest.raises(StartError, match="the archive in the store is damaged"):
        open_and_close(MemoryFileSystem(), DATA, found)
    assert found.read_lease().content
    assert not found.read_lease().is_free
