"""Opening a broker on a data directory. The server, the commands and embedded brokers all use it."""

from __future__ import annotations

import errno
import logging
import random
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline_broker.broker.broker import Broker
from pipeline_broker.broker.ports import NO_PORTS, Ports, do_nothing
from pipeline_broker.files.errors import DirectoryLocked, FencedError, Obstacle, reason_of
from pipeline_broker.files.file_system import FileSystem, SystemFileSystem
from pipeline_broker.log.archive.archive import Archive
from pipeline_broker.log.archive.local.archive_place import keep_archive_place
from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.errors import DamagedSegment, JournalCorrupt, JournalFailed, ManifestDamaged
from pipeline_broker.log.journal.flush_policy import Flush
from pipeline_broker.log.journal.journal import SEGMENT_BYTES, Journal, JournalPorts
from pipeline_broker.log.journal.journal_port import JournalPort
from pipeline_broker.log.journal.taken_directory import TakenDirectory
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.node.errors import StartBlockedError, StartError

if TYPE_CHECKING:
    from pipeline_broker.config.broker_config import BrokerConfig
    from pipeline_broker.node.archive_store import ArchiveStore
    from pipeline_broker.node.thread_wakeup import ThreadWakeup
    from pipeline_broker.node.upkeep import LogMaintenance

__all__ = ["maintenance_of", "open_broker"]

logger = logging.getLogger(__name__)

# Errors of a damaged data directory.
DAMAGES = (
    JournalCorrupt,
    JournalFailed,
    ManifestDamaged,
    DamagedSegment,
)
NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})


def open_broker(
    data: Path,
    config: BrokerConfig,
    *,
    flush: Flush = "always",
    files: FileSystem | None = None,
    segment_bytes: int = SEGMENT_BYTES,
    ports: Ports = NO_PORTS,
    randomness: random.Random | None = None,
    store: ArchiveStore | None = None,
    metadata: Iterable[tuple[bytes, bytes | None]] = (),
) -> tuple[JournalPort, Broker]:
    """Lock a data directory, which is created if it is missing, and recover its broker.

    Args:
        config: configuration; dynamic settings in the directory override it. No default exists, so that no command
            opens a directory with another configuration than its broker.
        flush: whether acknowledgements wait for a sync, unless a property says otherwise.
        files: file system; simulations pass another one than the system's.
        segment_bytes: size of the journal's segments.
        ports: callbacks of the broker.
        randomness: source of ids.
        store: object store of the archive; None for an archive in the directory.
        metadata: records of the controller, for a member of a cluster.

    Returns:
        the journal, which holds the lock of the directory, and the recovered broker.

    Raises:
        StartError: the directory is damaged or not usable.
        StartBlockedError: the directory is in use, or another broker or the object store prevents the startup.
    """
    files = SystemFileSystem() if files is None else files
    taken = _take(data, files)
    try:
        keep_archive_place(files, data, None if store is None else store.place)
        archive, journal = _open(taken, config, flush, segment_bytes, ports, store)
    except StartError:
        taken.lock.release()
        raise
    except Exception as error:  # noqa: BLE001 - any content of a file leads to one line
        taken.lock.release()
        raise _refusal(data, error) from None
    try:
        broker = _recovered(journal, archive, config, ports, randomness, metadata)
    except Exception as error:  # noqa: BLE001 - as above
        refusal = _refusal(data, error)
        if store is not None and isinstance(error, JournalCorrupt) and store.is_overtaken(archive.lsn):
            # Not damage: the other broker has archived records, and so removed them from the journal.
            refusal = StartBlockedError(f"another broker took over {store.place} during this startup")
        journal.close()
        raise refusal from None
    return journal, broker


def _recovered(
    journal: JournalPort,
    archive: Archive,
    config: BrokerConfig,
    ports: Ports,
    randomness: random.Random | None,
    metadata: Iterable[tuple[bytes, bytes | None]],
) -> Broker:
    broker = Broker(config, LogManager(journal, archive=archive, randomness=randomness), randomness, ports)
    now_ms = ports.clock_ms()
    broker.recover(now_ms, metadata)
    # The journal may continue at the end of the archive because it lost its own entries. Then new entries depend on the
    # archive, which must be durable before them.
    if journal.next_lsn == archive.lsn:
        archive.make_durable()
    entries = broker.first_entries(now_ms)
    if entries:
        journal.sync(journal.write(entries))
        broker.entries_durable(entries)
    return broker


def _take(data: Path, files: FileSystem) -> TakenDirectory:
    try:
        files.make_directory(data)
        return TakenDirectory.take(data, files)
    except DirectoryLocked as error:
        raise StartBlockedError(f"{error}. Stop that broker, or choose another data directory") from None
    except OSError as error:
        raise _refusal(data, error) from None


def _open(
    taken: TakenDirectory,
    config: BrokerConfig,
    flush: Flush,
    segment_bytes: int,
    ports: Ports,
    store: ArchiveStore | None,
) -> tuple[Archive, JournalPort]:
    clean = taken.clean_shutdown
    # An embedded broker starts again with the same store, which its previous run has interrupted.
    store = None if store is None else store.for_another_run()
    if store is None:
        archive = open_local_archive(taken.path, taken.files, None if clean is None else clean.manifest)
    elif store.place.wal == "objects":
        return _open_in_store(taken, config, ports, store)
    else:
        archive = store.open()
    journal_ports = JournalPorts(
        manifest_end=lambda: archive.manifest_end,
        segment_sealed=ports.segment_sealed,
        prepare_wanted=ports.prepare_wanted,
        sync_wanted=ports.sync_wanted,
        archiver_detached=do_nothing if store is None else store.interrupt,
    )
    return archive, Journal(taken, flush, segment_bytes, journal_ports)


def _open_in_store(
    taken: TakenDirectory, config: BrokerConfig, ports: Ports, store: ArchiveStore
) -> tuple[Archive, JournalPort]:
    """Open archive and journal in the object store, and keep the lease from the first step of the takeover."""
    from pipeline_broker.objects.lease import LeaseTimes  # noqa: PLC0415 - only with a store

    lease = store.claim(LeaseTimes.of(config.broker_heartbeat_interval_ms, config.broker_session_timeout_ms))
    try:
        archive = store.open()
        return archive, store.open_journal(taken, archive.lsn, ports.segment_sealed, lease)
    except BaseException:
        lease.close(gives_back=False)  # otherwise each standby would try the same at once, and fail too
        raise


def _refusal(data: Path, error: Exception) -> StartError:
    cause = error.__cause__ if isinstance(error, JournalFailed) else error
    if isinstance(cause, Obstacle):
        return StartBlockedError(str(cause))
    if isinstance(cause, FencedError):
        return StartBlockedError(str(error))
    if isinstance(cause, DAMAGES):
        return StartError(f"{data}: {error}")
    if not isinstance(cause, OSError):
        logger.debug("the data directory is unreadable", exc_info=error)
        return StartError(
            f"{data} holds data that this broker cannot read: {type(error).__name__}: {error}. Nothing was deleted."
            " Look for the damage with pipeline-broker inspect, and restore the directory from a backup"
        )
    if cause.errno in NO_SPACE:
        return StartError(
            f"the disk of the data directory {data} is full, and startup must write to it. Free some space"
        )
    return StartError(f"cannot use the data directory {data}: {reason_of(cause, data)}")


def maintenance_of(broker: Broker, sealed: ThreadWakeup) -> LogMaintenance:
    """Import and make the maintenance of the logs of an open broker.

    Args:
        sealed: called when a segment of the journal is complete.
    """
    from pipeline_broker.node.upkeep import LogMaintenance  # noqa: PLC0415 - on first use

    assert broker.logs.archive is not None, "open_broker sets the archive"
    return LogMaintenance(
        broker.logs, broker.logs.archive, lambda: broker.config, broker.ports.clock_ms, sealed, broker.fetches.wake
    )
