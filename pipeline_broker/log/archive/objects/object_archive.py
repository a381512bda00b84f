"""The archive of a broker whose archive is in a bucket.

Rules of this file: opened as one in a directory is, before the journal is read. To open it takes it over from any
process that has it; objects of the node that no commit names are deleted then, but for those of later generations: a
start that stands still meanwhile may have a successor, whose commits it does not know. Names in the store:
`files/<node>/` the log, `bulk/<node>/<generation>-...` the objects. What can be done again is given up after a moment,
and is an obstacle; a commit waits.
"""

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
    """In front of the names of all bulk objects of a node."""
    return f"bulk/{node}/"


def is_bulk_name(name: str, node: int) -> bool:
    """Return whether `ObjectSegmentStore` gives such names to bulk objects of a node."""
    return name.startswith(bulk_prefix(node)) and _OWN.fullmatch(name.removeprefix(bulk_prefix(node))) is not None


def open_object_archive(store: ObjectStore, node: int, pause: Pause) -> Archive:
    """Take the archive of a node over, an empty one when there is none.

    Args:
        store: as it is, not settled.
        node: the broker's id.
        pause: waits while a commit cannot be made; what it raises ends the wait.

    Raises:
        TakeoverError: others take it over again and again.
        ManifestDamaged: it cannot be read.
        ObjectStoreError: the bucket does not answer.
    """
    brief = SettledStore(store, pause_briefly)
    log = ArchiveLog.take_over(brief, SettledStore(store, pause), node, lambda: os.urandom(16))
    own = f"{bulk_prefix(node)}{log.generation:020d}-"
    earlier = takewhile(lambda name: name < own, (each.name for each in list_all(brief, bulk_prefix(node))))
    counted = log.files.object_sizes
    delete_all(brief, [name for name in earlier if name not in counted and is_bulk_name(name, node)])
    segments = ObjectSegmentStore(log, brief, BlockCache(brief), own)
    return Archive(segments, segments, log)
