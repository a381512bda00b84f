"""Segment stores over objects in memory, with a log of their changes that survives them.

Commits are kept as bytes and decoded again, so a store opened on them sees what another process would see.
"""

import itertools

from pipeline_broker.log.archive.objects.file_map import FileMap, decode_changes, encode_changes
from pipeline_broker.log.archive.objects.object_store import ObjectSegmentStore
from pipeline_broker.objects.block_cache import BlockCache
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import list_all

_lives = itertools.count()


class BytesLog:
    """See FileLog."""

    def __init__(self, commits=()):
        self.files = FileMap()
        self.commits = list(commits)
        for commit in self.commits:
            self.files.apply(*decode_changes(commit))

    def commit_files(self, changes, object_sizes):
        self.commits.append(encode_changes(changes, object_sizes))
        return self.files.apply(changes, object_sizes)


def object_store(log=None, store=None, object_bytes_max=64, cache_bytes_max=1 << 20):
    """Return a segment store with small objects. It starts no thread before it reads ahead or merges."""
    store = MemoryStore() if store is None else store
    log = BytesLog() if log is None else log
    return ObjectSegmentStore(
        log, store, BlockCache(store, cache_bytes_max), f"bulk/0-{next(_lives)}-", object_bytes_max
    )


def reopened(log, store, **options):
    """Return the store of a second process, which deletes the objects that do not count."""
    again = BytesLog(log.commits)
    store.delete([name for name, _ in list_all(store, "") if name not in again.files.object_sizes])
    return object_store(again, store, **options)
