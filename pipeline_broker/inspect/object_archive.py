"""Reading of a broker's archive in an object store."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence

from pipeline_broker.files.file_system import FileSystem
from pipeline_broker.inspect.errors import NoDataDirectoryError
from pipeline_broker.inspect.findings import Damage, Finding, Leftover, ManifestFound
from pipeline_broker.inspect.leftovers import some_of
from pipeline_broker.log.archive.local.archive_place import ArchivePlace
from pipeline_broker.log.archive.manifest import Manifest
from pipeline_broker.log.archive.objects.archive_log import ArchiveState, log_name, read_state
from pipeline_broker.log.archive.objects.file_map import Change, FileMap
from pipeline_broker.log.archive.objects.object_archive import bulk_prefix
from pipeline_broker.log.archive.objects.object_store import ObjectSegmentStore
from pipeline_broker.log.errors import ManifestDamaged
from pipeline_broker.log.journal.clean_shutdown import ManifestEnd
from pipeline_broker.objects.block_cache import BlockCache
from pipeline_broker.objects.fenced_log import BrokenLogError
from pipeline_broker.objects.opening import StoreRefused, open_store
from pipeline_broker.objects.settled_store import SettledStore, pause_briefly
from pipeline_broker.objects.store import ObjectStore, ObjectStoreError, list_all

__all__ = ["ObjectArchive"]

READS_MAX = 3  # reads of a log before it counts as damaged: its owner may replace slots by a snapshot during a read
_MALFORMED = (BrokenLogError, ManifestDamaged, struct.error, ValueError)


class ObjectArchive:
    """An archive in a store.

    A running broker may delete an object before a file in it is read. Then the archive's log is read again.

    Args:
        store: a `SettledStore`, which repeats failed requests.
        node: node id of the broker.
    """

    def __init__(self, store: ObjectStore, node: int) -> None:
        self._objects = store
        self._node = node
        self.store = ObjectSegmentStore(_NoLog(), store, BlockCache(store), "nothing/")
        self.manifests = _LogReader(store, node, self.store.show)

    @classmethod
    def find(cls, place: ArchivePlace, files: FileSystem) -> ObjectArchive:
        """Open the archive of a node in a store.

        Raises:
            NoDataDirectoryError: the store cannot be opened.
        """
        try:
            return cls(SettledStore(open_store(place.url, files, read_only=True), pause_briefly), place.node)
        except StoreRefused as error:
            raise NoDataDirectoryError(f"the archive cannot be read: {error}") from None

    def prepare(self) -> None:
        self.manifests.refreshed()

    def folders(self) -> Sequence[str]:
        return self.store.folders()

    def strays(self) -> Iterator[Finding]:
        counted = self.manifests.files.object_sizes
        try:
            listed = dict(list_all(self._objects, bulk_prefix(self._node)))
        except ObjectStoreError as error:
            raise NoDataDirectoryError(f"the archive cannot be read: {error}") from None
        strays = [name for name in listed if name not in counted]
        yield from some_of(
            strays,
            bulk_prefix(self._node),
            lambda name: [Leftover(name, 0, listed[name], "an object without files of the archive")],
        )


class _LogReader:
    def __init__(self, store: ObjectStore, node: int, show: Callable[[FileMap], None]) -> None:
        self.file = log_name(node)
        self.manifest: Manifest | None = Manifest()
        self.end = ManifestEnd()
        self.files = FileMap()
        self._store = store
        self._node = node
        self._show = show

    def position_of(self, _: bytes) -> int:
        return 0  # a log of objects has no positions

    def refreshed(self) -> Manifest | None:
        state, _, _ = self._read()
        return None if state is None else state.manifest

    def findings(self) -> Iterator[Finding]:
        state, slots_read, problem = self._read()
        self.manifest = None
        if state is None:
            yield Damage(self.file, 0, f"{problem}; the content of the archive is unknown")
            return
        self.manifest = state.manifest
        yield ManifestFound(self.file, slots_read[1], slots_read[0], state.manifest.lsn, len(state.manifest.partitions))

    def _read(self) -> tuple[ArchiveState | None, tuple[int, int], str]:
        """Return the state, with the number of slots and their size; or None and the reason."""
        problem = ""
        for _ in range(READS_MAX):
            try:
                state, slots = read_state(self._store, self._node)
            except _MALFORMED as error:
                problem = str(error)
            except ObjectStoreError as error:
                raise NoDataDirectoryError(f"the archive cannot be read: {error}") from None
            else:
                self.files = state.files
                self._show(state.files)
                return state, (len(slots), sum(len(slot.data) for slot in slots)), ""
        return None, (0, 0), problem


class _NoLog:
    def __init__(self) -> None:
        self.files = FileMap()

    def commit_files(self, changes: Sequence[Change], object_sizes: Mapping[str, int]) -> list[str]:
        raise AssertionError(f"a reader must not write: {len(changes)} changes of {len(object_sizes)} objects")
