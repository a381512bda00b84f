"""The constructor of an archive in an object store, which takes the archive over from any other owner."""

import os
import re
from itertools import takewhile

from pipeline_broker.log.archive.archive import Archive
from pipeline_broker.log.archive.objects.archive_log import ArchiveLog
from pipeline_broker.log.archive.objects.object_store import ObjectSegmentStore
from pipeline_broker.objects.block_cache import BlockCache
from pipeline_broker.objects.settled_store import Pause, SettledStore, pause_briefly
from pipeline_broker.objects.store import ObjectStore, delete_all, list_all

__all__ = ["bulk_prefix", "is_bulk_name", "open_object_archive"]

_OWN = re.compile(r"[0-9]{20}-[0-9]{20}-[0-9a-f]{16}")  # generation, number, nonce


def bulk_prefix(node: int) -> str:
    return f"bulk/{node}/"


def is_bulk_name(name: str, node: int) -> bool:
    return name.startswith(bulk_prefix(node)) and _OWN.fullmatch(name.removeprefix(bulk_prefix(node))) is not None


def open_object_archive(store: ObjectStore, node: int, pause: Pause) -> Archive:
    """Take over the archive of a node, and delete leftover bulk objects; create an empty archive if it is missing.

    Args:
        store: must not be settled.
        node: id of the broker.
        pause: waits between attempts of a commit; an exception from it ends the commit.

    Raises:
        TakeoverError: other processes kept taking over.
        FencedError: another process took over during the opening.
        ManifestDamaged: the archive cannot be read.
        ObjectStoreError: the store does not answer.
    """
    brief = SettledStore(store, pause_briefly)
    log = ArchiveLog.take_over(brief, SettledStore(store, pause), node, lambda: os.urandom(16))
    # Bulk objects of earlier generations that no commit names are leftovers. Those of later generations are kept: this
    # process may have stalled, and a successor may use them in commits that it does not know.
    own = f"{bulk_prefix(node)}{log.generation:020d}-"
    earlier = takewhile(lambda name: name < own, (each.name for each in list_all(brief, bulk_prefix(node))))
    counted = log.files.object_sizes
    delete_all(brief, [name for name in earlier if name not in counted and is_bulk_name(name, node)])
    segments = ObjectSegmentStore(log, brief, BlockCache(brief), own)
    return Archive(segments, segments, log)
