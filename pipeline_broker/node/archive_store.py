"""The store that a broker was started with: found, checked, and opened as its archive, and as its journal.

Rules of this file: imported when a start names a store. What makes the store unusable is one StartError with one line;
a store that keeps no conditions is refused before anything is written to it that counts.
"""

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
from pipeline_broker.node.options import StartBlockedError, StartError
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

OF_THIS_MACHINE = ("file:", "memory:")
"""How the addresses of stores begin that no network is in front of."""

LOOK_SECONDS = 0.05
"""How often a thread that waits for the store asks whether the broker ends."""


@attrs.frozen
class ArchiveStore:
    """A store that keeps what it promises.

    Attributes:
        place: its address, and whose archive in it is meant.
        store: not settled.
        figures: of all requests to it.
        faults: where rules about it act.
        sight: of the lease that a standby claims, and no other; None for a start that takes over from any owner.
        working: the same for archive and journal, which an end does not wait for where a network is between.
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

    def for_another_life(self) -> ArchiveStore:
        """The same, not interrupted."""
        return attrs.evolve(self)

    def interrupt(self) -> None:
        """Let go whatever waits for archive and journal, for good: the broker ends."""
        if isinstance(self.working, InterruptibleStore):
            self.working.interrupt()

    @classmethod
    def find(cls, place: ArchivePlace, files: FileSystem, delay_seconds: float = 0.0) -> ArchiveStore:
        """The store at an address, which is asked whether it keeps its promises; takes ten seconds at most.

        Args:
            place: see the attributes.
            files: the file system of `file://`.
            delay_seconds: each request behind these takes so much longer.

        Raises:
            StartError: it cannot be used.
        """
        try:
            store = open_store(place.url, files)
        except StoreRefused as error:
            raise StartError(str(error)) from None
        return cls.of(place, store, delay_seconds)

    @classmethod
    def of(cls, place: ArchivePlace, store: ObjectStore, delay_seconds: float = 0.0) -> ArchiveStore:
        """A store that was opened already, which is asked as in `find`.

        Raises:
            StartError: it cannot be used.
        """
        figures = StoreFigures()
        try:
            check_store(WatchedStore(store, figures.add))
        except StoreRefused as error:
            raise StartError(f"the store {place.url} cannot be used: {error}") from None
        faulty = FaultyStore(DelayedStore(store, delay_seconds) if delay_seconds else store)
        return cls(place, WatchedStore(faulty, figures.add), figures, faulty)

    @classmethod
    def of_directory(cls, data: Path, files: FileSystem) -> ArchiveStore | None:
        """The store that a data directory names; None when its archive is in itself.

        Raises:
            StartError: it cannot be used, or the directory cannot be read.
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
        """The same, whose requests are told to an observer too."""
        return attrs.evolve(self, store=WatchedStore(self.store, ended))

    def look(self) -> Sight:
        """A look at the lease of the journal; raises ObjectStoreError where the store does not answer."""
        return read_lease(self.store, self._journal_name)

    def claim(self, times: LeaseTimes) -> LeaseKeeper:
        """Claim the lease of the journal, in front of all that ends another owner; whoever calls closes what it gets.

        A store that does not do it says nothing about who owns the journal, so that is tried all the same.

        Raises:
            StartBlockedError: another standby has claimed what this one saw.
        """
        log, lease, asked_at = self._journal_name, Lease(os.urandom(16)), time.monotonic()
        settled = SettledStore(self.store, _pause_once)
        try:
            if self.sight is None:
                tag = take_lease(settled, log, lease)
            elif (tag := claim_lease(settled, log, lease, self.sight)) is None:
                raise StartBlockedError(f"another broker goes on with the journal of node {self.place.node}")
        except ObjectStoreError:
            tag = None
        return LeaseKeeper(self.store, log, lease, tag, times, asked_at)

    def open(self) -> Archive:
        """Take the archive over.

        Raises:
            StartBlockedError: the store does not answer, or another broker takes it over.
            StartError: its journal is in the store, and this start's is not.
            ManifestDamaged: it cannot be read.
        """
        if self.place.wal == "disk" and self._has_journal():
            raise StartError(f"the journal of node {self.place.node} is in {self.place.url}: start with --wal objects")
        try:
            return open_object_archive(self.working, self.place.node, _pause)
        except (ObjectStoreError, TakeoverError, FencedError) as error:
            where = f"the archive of node {self.place.node} in {self.place.url}"
            raise StartBlockedError(f"{where} cannot be used: {error}") from None

    def open_journal(
        self, taken: TakenDirectory, archived_lsn: int, segment_sealed: Callable[[], None], lease: LeaseKeeper
    ) -> ObjectJournal:
        """Take the journal over, from any process that has it; the archive comes first.

        What a predecessor gives back rests on what its archive held. So whoever has taken the archive over, and read
        it, misses nothing in the journal.

        Args:
            taken: the data directory, in which nothing that matters is kept.
            archived_lsn: of the archive; that of a journal on a disk means nothing to one in a store.
            segment_sealed: see ObjectJournal.
            lease: that was claimed; closed with the journal.

        Raises:
            StartBlockedError: the store does not answer, or other brokers take it over.
            StartError: the journal was on a disk before.
            JournalCorrupt: its beginning cannot be read.
        """
        log, node = self._journal_name, self.place.node
        if archived_lsn and not self._has_journal():
            raise StartError(
                f"the archive of node {node} in {self.place.url} belongs to a journal on a disk: --wal disk"
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
        """Whether another start has taken over archive and journal between this one's taking of the two.

        Then the journal lacks what that one has archived, and what is archived lacks here; nothing is damaged.

        Args:
            archived_lsn: of the archive when this start took it over.
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
            # a lease is none, nor is what another program has put there
            return any(place_of(self._journal_name, each.name) is not None for each in objects)
        except ObjectStoreError as error:
            raise StartBlockedError(f"the store {self.place.url} cannot be used: {error}") from None


def _pause_once(seconds: float, error: ObjectStoreError) -> None:
    """Give up after two tries: a takeover does not wait for what it can do without."""
    if seconds > PAUSE_SECONDS_MIN:
        raise error
    time.sleep(seconds)


def _pause(seconds: float, error: ObjectStoreError) -> None:
    """Wait in a thread of the upkeep, until its task is cancelled; in another, as at a start, for a moment only."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        try:
            trio.from_thread.check_cancelled()
        except RuntimeError:
            pause_briefly(seconds, error)
            return
        time.sleep(min(left, LOOK_SECONDS))
