"""A broker with something changed, run as `broker_variant.py VARIANT serve ...`: for tests, as a child process.

Rules of this file: a variant subclasses one class of the broker and puts it in the place of the original. `rolling`,
`rolling-objects`, `unarchived`, `hoarding`, which is both, `counting`, `soaked`, `small-segments`, `slow-archive` and
`wandering-clock` are brokers that must pass every test; the others are sabotaged, each in one way that the tests must
notice. A variant that changes nothing would pass for a broker that withstands its sabotage: `test_broker_variant.py`
looks that each bites.
"""

import contextlib
import os
import sys
import threading
import time

import attrs

from pipeline_broker import cli
from pipeline_broker.apis import dispatch
from pipeline_broker.apis.call import Call
from pipeline_broker.broker import cluster_parts
from pipeline_broker.files import large_writes
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.local import local_archive
from pipeline_broker.log.archive.local.local_store import LocalStore
from pipeline_broker.log.journal import journal
from pipeline_broker.log.journal.recovery import Recovery
from pipeline_broker.log.object_journal import object_journal
from pipeline_broker.log.partition import partition_log
from pipeline_broker.log.producers import producer_state
from pipeline_broker.log.producers.ended_transactions import EndedTransactions
from pipeline_broker.log.producers.producer_state import ProducerStates
from pipeline_broker.node import archive_store, data_directory, upkeep
from pipeline_broker.node import process as server
from pipeline_broker.objects import slot_writer
from pipeline_broker.objects.fenced_log import Place, slot_name
from pipeline_broker.objects.store import Exists
from pipeline_broker.state.groups import coordinator as group_coordinator
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.groups.offsets import CommittedOffsets
from pipeline_broker.state.producer_ids import ProducerIds
from tests.crashes.killing_files import KillingFileSystem

ROLLING_SEGMENT_BYTES = 256 << 10
COUNTED_SEGMENT_BYTES = 512 << 10
SOAKED_SEGMENT_BYTES = 4 << 20
LARGE_COMMIT_BYTES = 8 << 10
"""From here on they go past the page cache, so that what is killed does both."""
HOLD_SECONDS = 0.1
SLOW_SYNC_SECONDS = 0.02
CLOCK_AHEAD = "CLOCK_AHEAD"
"""Names a file that says by how many seconds the wall clock of `wandering-clock` is ahead."""


class RollingJournal(journal.Journal):
    """Small segments: one begins, and a spare is prepared, many times a second."""

    def __init__(self, taken, flush, _, ports):
        super().__init__(taken, flush, ROLLING_SEGMENT_BYTES, ports)


class CountedJournal(journal.Journal):
    """Segments that a few large records fill."""

    def __init__(self, taken, flush, _, ports):
        super().__init__(taken, flush, COUNTED_SEGMENT_BYTES, ports)


class SoakedJournal(journal.Journal):
    """Segments that are archived every few seconds under a load that a test machine bears for hours."""

    def __init__(self, taken, flush, _, ports):
        super().__init__(taken, flush, SOAKED_SEGMENT_BYTES, ports)


class RollingObjectJournal(object_journal.ObjectJournal):
    """Small runs of slots, so that they are archived and deleted many times a second."""

    def __init__(self, *args, **more):
        super().__init__(*args, segment_bytes=ROLLING_SEGMENT_BYTES, **more)


class HastySlotWriter(slot_writer.SlotWriter):
    """Waits for no object to be stored, nor for those in front of it."""

    def put(self, header, parts):
        parts = [bytes(part) for part in parts]
        threading.Timer(HOLD_SECONDS, super().put, (header, parts)).start()

    def wait(self, slot):
        pass


class CredulousSlotWriter(slot_writer.SlotWriter):
    """Takes whatever is in a slot for its own."""

    def put(self, header, parts):
        with contextlib.suppress(Exists):
            self._store.create(slot_name(self._log, Place(header.generation, header.slot)), parts)
        with self._changed:
            self._writer = self._writer.store(header.slot)
            self._changed.notify_all()


class SlowStore(LocalStore):
    """A disk that takes its time for each file."""

    def _sync_data(self, name):
        time.sleep(SLOW_SYNC_SECONDS)
        super()._sync_data(name)


class NoMaintenance(upkeep.LogMaintenance):
    """Archives nothing, so that everything stays in the journal."""

    async def run(self, *, task_status):
        task_status.started()


class _HeldFile:
    """What is written stays in this process for a while."""

    def __init__(self, file, system):
        self._file = file
        self._system = system

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, parts, position):
        data = b"".join(parts)
        self._system.hold(self._file, data, position)
        return len(data)

    def write_blocks(self, blocks, position):
        """As a file system that goes through the page cache only."""

    def sync_data(self):
        pass


class HoldingFileSystem(SystemFileSystem):
    """Writes reach the system in their order, but later than their caller is told."""

    def __init__(self):
        super().__init__()
        self._held = []
        threading.Thread(target=self._run, daemon=True).start()

    def open(self, path, *, create=False):
        file = super().open(path, create=create)
        return file if create else _HeldFile(file, self)  # what is created is a header, without which nothing starts

    def hold(self, file, data, position):
        self._held.append((file, data, position))

    def _run(self):
        while True:
            time.sleep(HOLD_SECONDS)
            held, self._held = self._held, []
            for file, data, position in held:
                file.write([data], position)


class UnsyncedFile:
    """Leaves the sync out."""

    def __init__(self, file):
        self._file = file

    def __getattr__(self, name):
        return getattr(self._file, name)

    def sync_data(self):
        pass


class LateSyncedFile(UnsyncedFile):
    """Syncs, but a while after it said that it had."""

    def sync_data(self):
        threading.Timer(HOLD_SECONDS, self._sync_late).start()

    def _sync_late(self):
        with contextlib.suppress(OSError):  # nobody is left to be told
            self._file.sync_data()


class NamesUnsynced(SystemFileSystem):
    """Leaves the sync of the journal's directory out."""

    def sync_directory(self, path):
        pass


def journal_on(file_system):
    """A journal on another file system."""

    class Changed(journal.Journal):
        def __init__(self, taken, flush, segment_bytes, ports):
            super().__init__(attrs.evolve(taken, files=file_system()), flush, segment_bytes, ports)

    return Changed


def files_as(file_type):
    """A file system whose files are wrapped."""

    class Changed(SystemFileSystem):
        def open(self, path, *, create=False):
            return file_type(super().open(path, create=create))

    return Changed


def wandering(clock):
    """A wall clock, in seconds or nanoseconds, that is ahead by what a file says; the monotonic one is not."""
    unit = 10**9 if clock is time.time_ns else 1

    def read():
        with open(os.environ[CLOCK_AHEAD], encoding="ascii") as file:  # noqa: PTH123 - for each look at the clock
            return clock() + int(file.read()) * unit

    return read


class ShortRecovery(Recovery):
    """Takes the last frame for a torn one."""

    def _run(self, window, number, identity, position):
        return [], position

    def _frame(self, window, identity, position, lsn):
        header = super()._frame(window, identity, position, lsn)
        if header is None or lsn is None:
            return header
        end = position + header.body_size + journal.FRAME_HEADER_SIZE
        if super()._frame(window, identity, end, None) is None:
            return None
        return super()._frame(window, identity, position, lsn)


class TrustingRecovery(Recovery):
    """Takes what it reads for durable, although a sync that failed may have left it in the page cache only."""

    def _make_durable(self, numbers):
        pass


class ForgetfulProducerStates(ProducerStates):
    """Remembers no batch, so that a batch which is sent again is appended again."""

    def check(self, producer_id, epoch, first_sequence, last_sequence):
        return None


class ForgetfulProducerIds(ProducerIds):
    """Does not know which ids were given out before the start."""

    def replay(self, key, value):
        pass


class ForgetfulOffsets(CommittedOffsets):
    """Does not know which offsets transactions had committed before the start."""

    def replay_held(self, producer_id, key, committed):
        pass


class ForgetfulEndedTransactions(EndedTransactions):
    """Does not tell readers which transactions were aborted."""

    def add_aborted(self, transaction):
        pass


class CredulousGroups(GroupCoordinator):
    """Takes an offset within a transaction from whoever brings it, members of an earlier generation too."""

    def commit(self, request, now_ms):
        if request.producer_id is not None:
            request = attrs.evolve(request, generation_id=-1, member_id="", group_instance_id=None)
        return super().commit(request, now_ms)


class CallInOneTurn(Call):
    """Does all that a request asks for before anybody else is served."""

    __slots__ = ()

    def is_turn_over(self, cost):
        super().is_turn_over(cost)
        return False


LARGE_COMMITS = {(large_writes, "LARGE_WRITE_BYTES_MIN"): LARGE_COMMIT_BYTES}
COUNTING = {
    (data_directory, "Journal"): CountedJournal,
    (server, "SystemFileSystem"): KillingFileSystem,
    **LARGE_COMMITS,
}
VARIANTS = {
    "rolling": {(data_directory, "Journal"): RollingJournal, **LARGE_COMMITS},
    "rolling-objects": {(archive_store, "ObjectJournal"): RollingObjectJournal},
    "acknowledges-what-is-not-stored": {(object_journal, "SlotWriter"): HastySlotWriter},
    "takes-another's-slot-for-its-own": {(object_journal, "SlotWriter"): CredulousSlotWriter},
    "unarchived": {(upkeep, "LogMaintenance"): NoMaintenance},
    "counting": COUNTING,
    "wandering-clock": {(time, "time"): wandering(time.time), (time, "time_ns"): wandering(time.time_ns)},
    "soaked": {(data_directory, "Journal"): SoakedJournal, **LARGE_COMMITS},
    "small-segments": {(data_directory, "Journal"): CountedJournal, **LARGE_COMMITS},
    "slow-archive": {(data_directory, "Journal"): CountedJournal, (local_archive, "LocalStore"): SlowStore},
    "counting-and-loses-the-last-frame": {**COUNTING, (journal, "Recovery"): ShortRecovery},
    "hoarding": {
        (data_directory, "Journal"): RollingJournal,
        (upkeep, "LogMaintenance"): NoMaintenance,
        **LARGE_COMMITS,
    },
    "acknowledges-before-the-write": {(data_directory, "Journal"): journal_on(HoldingFileSystem)},
    "acknowledges-before-the-sync": {(data_directory, "Journal"): journal_on(files_as(LateSyncedFile))},
    "syncs-no-data": {(server, "SystemFileSystem"): files_as(UnsyncedFile)},
    "syncs-no-names": {(server, "SystemFileSystem"): NamesUnsynced},
    "loses-the-last-frame": {(journal, "Recovery"): ShortRecovery},
    "trusts-the-page-cache": {(journal, "Recovery"): TrustingRecovery},
    "forgets-producers": {(partition_log, "ProducerStates"): ForgetfulProducerStates},
    "forgets-transactional-offsets": {(group_coordinator, "CommittedOffsets"): ForgetfulOffsets},
    "forgets-aborted-transactions": {(producer_state, "EndedTransactions"): ForgetfulEndedTransactions},
    "takes-offsets-of-former-members": {(group_coordinator, "GroupCoordinator"): CredulousGroups},
    "takes-no-turns": {(dispatch, "Call"): CallInOneTurn},
    "gives-ids-again": {(cluster_parts, "ProducerIds"): ForgetfulProducerIds},
}


def put_in_place(changes, put=setattr):
    """Change the modules of this process: those that are named, and all others that have imported the original.

    The module that defines it keeps it, unless it is named, because there it is what variants are made of.
    """
    for (module, name), changed in changes.items():
        original = getattr(module, name)
        assert not isinstance(changed, type) or issubclass(changed, original)
        home = getattr(original, "__module__", None)
        holders = [it for it in list(sys.modules.values()) if vars(it).get(name) is original and it.__name__ != home]
        for holder in {module, *(it for it in holders if it.__name__.startswith("pipeline_broker"))}:
            put(holder, name, changed)


if __name__ == "__main__":
    put_in_place(VARIANTS[sys.argv.pop(1)])
    cli.main()
