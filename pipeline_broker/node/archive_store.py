"""The object store of a broker: checked at startup, and opened as its archive and journal."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path

import attrs
import trio

from pipeline_broker.faults.faulty_store import FaultyStore
from pipeline_broker.files.errors import FencedError, reason_of
from pipeline_broker.files.file_system import FileSystem
from pipeline_broker.log.archive.archive import Archive
from pipeline_broker.log.archive.local.archive_place import ENDED, MEMORY, ArchivePlace, read_archive_place
from pipeline_broker.log.archive.objects.archive_log import read_state
from pipeline_broker.log.archive.objects.object_archive import open_object_archive
from pipeline_broker.log.errors import JournalCorrupt, ManifestDamaged
from pipeline_broker.log.journal.taken_directory import TakenDirectory
from pipeline_broker.log.object_journal.journal_state import journal_name
from pipeline_broker.log.object_journal.object_journal import ObjectJournal
from pipeline_broker.node.errors import StartBlockedError, StartError
from pipeline_broker.objects.check import check_store
from pipeline_broker.objects.delayed_store import DelayedStore
from pipeline_broker.objects.fenced_log import BrokenLogError, place_of
from pipeline_broker.objects.fencing import TakeoverError, take_over
from pipeline_broker.objects.interruptible_store import InterruptibleStore
from pipeline_broker.objects.lease import Lease, LeaseTimes, Sight
from pipeline_broker.objects.lease_keeper import LeaseKeeper, claim_lease, read_lease, take_lease
from pipeline_broker.objects.opening import StoreRefused, open_store
from pipeline_broker.objects.settled_store import PAUSE_SECONDS_MIN, SettledStore, pause_briefly
from pipeline_broker.objects.store import ObjectStore, ObjectStoreError, list_all
from pipeline_broker.objects.store_figures import StoreFigures
from pipeline_broker.objects.watched_store import EndedRequest, WatchedStore

__all__ = ["ArchiveStore"]

# URL schemes of stores without a network.
OF_THIS_MACHINE = ("file:", "memory:")

# Interval in which a thread that waits for the store checks whether the broker ends.
CHECK_SECONDS = 0.05


@attrs.frozen
class ArchiveStore:
    """An object store that has passed `check_store`.

    Attributes:
        place: URL of the store, and the node that the archive belongs to.
        store: the checked store; it does not retry.
        figures: counters of all requests.
        faults: applies fault rules to the store.
        sight: lease that a standby has seen, the only one that it may claim; None to take over from any owner.
        working: store for archive and journal. `interrupt` ends its requests if the store is remote.
    """

    place: ArchivePlace
    store: ObjectStore
    figures: StoreFigures
    faults: FaultyStore
    sight: Sight | None = None
    working: ObjectStore = attrs.field(init=False, repr=False)

    @working.default
    def _interruptible_where_remote(self) -> ObjectStore:
        return self.store if self.place.url.startswith(OF_THIS_MACHINE) else InterruptibleStore(self.store)

    def for_another_run(self) -> ArchiveStore:
        return attrs.evolve(self)

    def interrupt(self) -> None:
        """End all requests of archive and journal, and refuse further ones, because the broker ends."""
        if isinstance(self.working, InterruptibleStore):
            self.working.interrupt()

    @classmethod
    def find(cls, place: ArchivePlace, files: FileSystem, delay_seconds: float = 0.0) -> ArchiveStore:
        """Open the store at a URL, and check that it keeps its guarantees. This takes at most ten seconds.

        Args:
            place: see the attributes.
            files: file system of `file://` stores.
            delay_seconds: injected delay of each later request.

        Raises:
            StartError: the store cannot be used.
        """
        try:
            store = open_store(place.url, files)
        except StoreRefused as error:
            raise StartError(str(error)) from None
        return cls.of(place, store, delay_seconds)

    @classmethod
    def of(cls, place: ArchivePlace, store: ObjectStore, delay_seconds: float = 0.0) -> ArchiveStore:
        """Check an open store as `find` does, and return its ArchiveStore.

        Raises:
            StartError: the store cannot be used.
        """
        figures = StoreFigures()
        # Before anything is written: a store that ignores conditions would let two brokers own the same journal.
        try:
            check_store(WatchedStore(store, figures.add))
        except StoreRefused as error:
            raise StartError(f"the store {place.url} cannot be used: {error}") from None
        faulty = FaultyStore(DelayedStore(store, delay_seconds) if delay_seconds else store)
        return cls(place, WatchedStore(faulty, figures.add), figures, faulty)

    @classmethod
    def of_directory(cls, data: Path, files: FileSystem) -> ArchiveStore | None:
        """Open and check the store that a data directory names. Return None if the archive is in the directory.

        Raises:
            StartError: the store cannot be used, was in the memory of an ended process, or the directory cannot be
                read.
        """
        try:
            place = read_archive_place(files, data)
        except ManifestDamaged as error:
            raise StartError(f"{data}: {error}") from None
        except OSError as error:
            raise StartError(f"cannot use the data directory {data}: {reason_of(error, data)}") from None
        if place is not None and place.url.startswith(MEMORY):
            raise StartError(f"{data}: {ENDED}")
        return None if place is None else cls.find(place, files)

    def observed(self, ended: Callable[[EndedRequest], None]) -> ArchiveStore:
        return attrs.evolve(self, store=WatchedStore(self.store, ended))

    def read_lease(self) -> Sight:
        """Read the lease of the journal; raises ObjectStoreError if the store does not respond."""
        return read_lease(self.store, self._journal_name)

    def claim(self, times: LeaseTimes) -> LeaseKeeper:
        """Claim the lease of the journal, before the takeover ends another owner; return its keeper.

        The caller must close the keeper.

        If the store does not respond, the takeover is tried without the lease, since the fences decide about ownership.

        Raises:
            StartBlockedError: another standby has claimed the lease that this one saw.
        """
        # The lease counts from before the request: its answer may arrive late.
        log, lease, asked_at = self._journal_name, Lease(os.urandom(16)), time.monotonic()
        settled = SettledStore(self.store, _pause_once)
        try:
            if self.sight is None:
                tag = take_lease(settled, log, lease)
            elif (tag := claim_lease(settled, log, lease, self.sight)) is None:
                raise StartBlockedError(f"another broker is taking over the journal of node {self.place.node}")
        except ObjectStoreError:
            tag = None
        return LeaseKeeper(self.store, log, lease, tag, times, asked_at)

    def open(self) -> Archive:
        """Take over the archive.

        Raises:
            StartBlockedError: the store does not respond, or another broker takes over the archive.
            StartError: the journal is in the store, but this startup has `--wal disk`.
            ManifestDamaged: the archive cannot be read.
        """
        if self.place.wal == "disk" and self._has_journal():
            raise StartError(f"the journal of node {self.place.node} is in {self.place.url}. Start with --wal objects")
        try:
            return open_object_archive(self.working, self.place.node, _pause)
        except (ObjectStoreError, TakeoverError, FencedError) as error:
            where = f"the archive of node {self.place.node} in {self.place.url}"
            raise StartBlockedError(f"{where} cannot be used: {error}") from None

    def open_journal(
        self, taken: TakenDirectory, archived_lsn: int, segment_sealed: Callable[[], None], lease: LeaseKeeper
    ) -> ObjectJournal:
        """Take over the journal from any other process. The archive must be taken over first.

        An owner deletes segments of the journal only after its archive has them. So a process that has taken over the
        archive, and read it, finds all other records in the journal.

        Args:
            taken: data directory, which holds nothing durable.
            archived_lsn: end of the archive.
            segment_sealed: see ObjectJournal.
            lease: claimed lease, closed with the journal.

        Raises:
            StartBlockedError: the store does not respond, or other brokers take over the journal.
            StartError: the journal was on a disk before.
            JournalCorrupt: the beginning of the journal cannot be read.
        """
        log, node = self._journal_name, self.place.node
        # The LSNs of a journal on disk mean nothing in the store.
        if archived_lsn and not self._has_journal():
            raise StartError(
                f"the archive of node {node} in {self.place.url} belongs to a journal on a disk. Start with --wal disk"
            )
        try:
            ownership = take_over(SettledStore(self.working, pause_briefly), log, node, lambda: os.urandom(16))
        except (ObjectStoreError, TakeoverError) as error:
            where = f"the journal of node {node} in {self.place.url}"
            raise StartBlockedError(f"{where} cannot be used: {error}") from None
        except BrokenLogError as error:
            raise JournalCorrupt(str(error)) from None
        given_up = functools.partial(lease.close, gives_back=True)
        return ObjectJournal(
            self.working,
            log,
            node,
            ownership,
            taken,
            segment_sealed,
            given_up=given_up,
            interrupt=self.interrupt,
            lease=lease.state,
        )

    def is_overtaken(self, archived_lsn: int) -> bool:
        """Return whether another broker took over archive and journal while this startup took over one after the other.

        Then records may seem to be missing: the other broker has moved them from the journal to the archive. Returns
        False if the journal is on a disk, or the state of the archive cannot be read.

        Args:
            archived_lsn: end of the archive when this startup took it over.
        """
        if self.place.wal != "objects":
            return False
        try:
            state, _ = read_state(SettledStore(self.store, pause_briefly), self.place.node)
        except (ObjectStoreError, BrokenLogError, ManifestDamaged):
            return False
        return state.manifest.lsn > archived_lsn

    @property
    def _journal_name(self) -> str:
        return journal_name(self.place.node)

    def _has_journal(self) -> bool:
        try:
            objects = list_all(SettledStore(self.store, pause_briefly), f"{self._journal_name}/")
            # The lease, and objects of other programs, are not part of the journal.
            return any(place_of(self._journal_name, each.name) is not None for each in objects)
        except ObjectStoreError as error:
            raise StartBlockedError(f"the store {self.place.url} cannot be used: {error}") from None


def _pause_once(seconds: float, error: ObjectStoreError) -> None:
    if seconds > PAUSE_SECONDS_MIN:  # the second attempt failed too; a takeover works without the lease
        raise error
    time.sleep(seconds)


def _pause(seconds: float, error: ObjectStoreError) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            trio.from_thread.check_cancelled()
        except RuntimeError:  # not a thread of Trio, so the startup: it fails after a few attempts
            pause_briefly(seconds, error)
            return
        time.sleep(min(left, CHECK_SECONDS))
