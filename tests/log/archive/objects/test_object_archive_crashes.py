"""Archiving, retention and compaction in an object store, killed at every request, carried out or not.

After the next start, readers see the state before the work or the state after it, and never less.
"""

import pytest

from pipeline_broker.log.archive.objects import object_archive
from pipeline_broker.log.archive.objects.object_archive import bulk_prefix, open_object_archive
from pipeline_broker.log.archive.objects.object_store import ObjectSegmentStore
from pipeline_broker.log.errors import LogError
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import list_all
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.archive import test_upkeep_crashes as on_disk
from tests.log.archive.test_upkeep_crashes import DIRECTORY, POLICIES, TOPIC_ID, KilledError

NODE = 1


def no_pause(seconds, error):
    """Time does not count here."""


class KillingStore:
    """Carries out a number of requests. The next one is carried out or not, and ends the process."""

    def __init__(self, store, requests, is_done):
        self._store = store
        self._left = requests
        self._is_done = is_done

    def __getattr__(self, name):
        ask = getattr(self._store, name)

        def asked(*arguments):
            self._left -= 1
            if self._left >= 0:
                return ask(*arguments)
            if self._left == -1 and self._is_done:
                ask(*arguments)
            raise KilledError

        return asked


class Life(on_disk.Life):
    """One start on a data directory and a store."""

    def __init__(self, files, policies, store):
        files.kill()
        self.files = files
        self.journal = Journal.open(DIRECTORY, segment_bytes=8 << 10, files=files)
        self.archive = open_object_archive(store, NODE, no_pause)
        self.logs = LogManager(self.journal, 0, self.archive)
        (self.log,) = self.logs.create("topic", TOPIC_ID, 1, policies=policies)
        self.logs.recover(lambda *_: None, 0)
        self.archive.remove_unknown({self.log.entry_key})

    def close(self):
        self.archive.close()


def filled(policy, store):
    files = MemoryFileSystem()
    life = Life(files, POLICIES[policy], store)
    life.fill()
    life.close()
    return files


def ended_everywhere(policy):
    """Yield what readers see when the work ends at each request and the next process repeats it."""
    requests, is_over = 0, False
    while not is_over:
        for is_done in (False, True):
            store = MemoryStore()
            files = filled(policy, store)
            life = None
            try:
                life = Life(files, POLICIES[policy], KillingStore(store, requests, is_done))
                getattr(life, policy)()
                is_over = True
            except KilledError:
                pass
            if life is not None:
                life.close()  # uploads in flight have arrived by then, or never will
            life = Life(files, POLICIES[policy], store)
            seen = life.records()
            getattr(life, policy)()
            assert {each.name for each in list_all(store, bulk_prefix(NODE))} == set(
                life.archive._manifest_file.files.object_sizes
            ), "no unused object is left"
            yield seen, life.records()
            life.close()
        requests += 1


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_retention_and_compaction_lose_nothing_wherever_they_end(policy):
    store = MemoryStore()
    life = Life(filled(policy, store), POLICIES[policy], store)
    before = life.records()
    getattr(life, policy)()
    after = life.records()
    life.close()
    assert before != after
    for seen, again in ended_everywhere(policy):
        assert seen in (before, after)
        assert again == after


def test_archiving_loses_nothing_wherever_it_ends():
    store = MemoryStore()
    life = Life(filled("delete", store), POLICIES["delete"], store)
    expected = life.records()
    life.close()
    requests, is_over = 0, False
    while not is_over:
        for is_done in (False, True):
            store, files, life = MemoryStore(), MemoryFileSystem(), None
            try:
                life = Life(files, POLICIES["delete"], KillingStore(store, requests, is_done))
                life.fill()
                is_over = True
            except KilledError:
                pass
            if life is not None:
                life.close()
            life = Life(files, POLICIES["delete"], store)
            offset, end, found = life.records()
            assert (offset, found) == (0, expected[2][:end])
            life.close()
        requests += 1 if requests < 20 else 5


def test_objects_deleted_before_the_edit_are_noticed(monkeypatch):
    class DeletesFirst(ObjectSegmentStore):
        def _commit(self, changes):
            names = {change.name for change in changes}
            kept = {each.object_name for name, file in self._files.items() if name not in names for each in file.ranges}
            before = {each.object_name for ranges in self._log.files.files.values() for each in ranges}
            self._store.delete(sorted(before - kept))
            return super()._commit(changes)

    monkeypatch.setattr(object_archive, "ObjectSegmentStore", DeletesFirst)
    with pytest.raises((AssertionError, LogError, OSError)):
        any(list(ended_everywhere(policy)) is None for policy in sorted(POLICIES))


def test_a_lost_data_directory_continues_from_the_archive():
    store = MemoryStore()
    life = Life(filled("delete", store), POLICIES["delete"], store)
    expected = life.records()
    lsn = life.archive.lsn
    life.close()

    life = Life(MemoryFileSystem(), POLICIES["delete"], store)
    _, end, found = life.records()
    assert (life.archive.lsn, life.journal.next_lsn) == (lsn, lsn)
    assert found == expected[2][:end]
    assert end > 0
    life.fill()
    assert life.records()[1] > end
    life.close()
