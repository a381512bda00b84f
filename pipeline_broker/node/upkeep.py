"""The maintenance of the logs: archiving, retention and compaction, like Kafka's LogManager and LogCleaner.

Counterpart in Kafka: `LogManager`.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.files.errors import Ended, FencedError, is_passing, with_remedy
from pipeline_broker.log.archive.adoption import HandedLog, adopt
from pipeline_broker.log.archive.archive import Archive, Cleaned, DeletedSegment, Expiry
from pipeline_broker.log.archive.archiver import Archiver
from pipeline_broker.log.errors import JournalCorrupt, LogError
from pipeline_broker.log.journal.writer_room import lacks_margin
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.partition.retention_of_logs import expiries, waits_for_archive
from pipeline_broker.node.errors import MaintenanceFailedError, TakenOverError
from pipeline_broker.node.operator_commands import Command, CommandFailedError
from pipeline_broker.node.thread_wakeup import ThreadWakeup
from pipeline_broker.records.errors import RecordError

if TYPE_CHECKING:
    from pipeline_broker.log.partition.compaction_of_logs import Round

__all__ = ["LogMaintenance", "MaintenanceFailedError", "TakenOverError", "sealed_segments_max"]

logger = logging.getLogger(__name__)

COMPACTION = "pipeline_broker.log.partition.compaction_of_logs"
# Interval of the attempts while the disk is full.
RETRY_SECONDS = 1.0
# Logs whose expired segments are searched in one turn of the event loop: about 2 ms.
LOGS_PER_TURN = 300
WATCH_SECONDS = 1.0
"""Interval of the checks that the data directory exists, and of its free disk space."""
NOTHING_LOST = "no acknowledged record is lost"


def _in_turns(logs: Sequence[PartitionLog]) -> Iterator[Sequence[PartitionLog]]:
    for first in range(0, len(logs), LOGS_PER_TURN):
        yield logs[first : first + LOGS_PER_TURN]


def sealed_segments_max(at_once: int) -> int:
    """Return the number of complete journal segments that may wait for the archive before writers wait.

    They are those of one archive round, those of the next, and one more. The next startup replays them and the active
    one. The journal allows more of them if batches are large.

    Args:
        at_once: segments of one archive round.
    """
    return 2 * at_once + 1


def load_compaction() -> tuple[Callable[..., Round | None], Callable[..., Cleaned | None]]:
    """Import and return the function that finds the next round of compaction, and the one that carries it out."""
    from pipeline_broker.log.compaction.cleaning import clean  # noqa: PLC0415 - see `compaction`
    from pipeline_broker.log.partition.compaction_of_logs import next_round  # noqa: PLC0415 - see `compaction`

    return next_round, clean


async def compaction() -> tuple[Callable[..., Round | None], Callable[..., Cleaned | None]]:
    """Return the functions of `load_compaction`, imported in a thread the first time."""
    # Only when an archived log could be compacted: many brokers end before. In a thread the import delays no client.
    if COMPACTION not in sys.modules:
        await trio.to_thread.run_sync(load_compaction)
    return load_compaction()


class LogMaintenance:
    """The tasks that archive, retain and compact the logs of a serving broker.

    One task at a time writes to the archive. The event loop shows each edit to the logs before files that it makes
    redundant are deleted.

    While the disk is full, or file descriptors are exhausted, the work is tried again. A damaged log is not compacted
    until the next start. Any other failure ends the broker, because a process cannot trust files after a failed sync.
    Long work checks for cancellation at points where a crash would do no harm either.

    Args:
        logs: logs with the journal to archive.
        config: returns the current configuration.
        clock_ms: wall clock.
        sealed: called when a segment of the journal is complete.
        start_raised: called with a log after its log start offset was raised.
    """

    def __init__(
        self,
        logs: LogManager,
        archive: Archive,
        config: Callable[[], BrokerConfig],
        clock_ms: Callable[[], int],
        sealed: ThreadWakeup,
        start_raised: Callable[[PartitionLog], None] = lambda _: None,
    ) -> None:
        self._logs = logs
        self._archive = archive
        self._journal = logs.journal
        self._archiver = Archiver(archive, logs.journal)
        self._config = config
        self._clock_ms = clock_ms
        self._start_raised = start_raised
        self._writing = trio.Lock()
        self._cleaning = trio.Lock()
        self._waiting_count = 0  # tasks that wait for disk space
        self._uncleanable: set[bytes] = set()  # damaged logs, until the next startup
        self._sealed = sealed
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Maintain the logs until cancelled.

        Raises:
            MaintenanceFailedError: the disk failed, the data directory was removed, or (TakenOverError) another process
                has taken over the archive. It is in an exception group.
        """
        self._sealed.begin()
        self._journal.attach_archiver(sealed_segments_max(self._archiver.segments_at_once))
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._archive_regularly)
                nursery.start_soon(self._retain_regularly)
                nursery.start_soon(self._compact_regularly)
                nursery.start_soon(self._watch_directory)
                task_status.started()
        finally:
            self._nursery = None
            self._sealed.end()
            self._journal.detach_archiver()

    async def _compact_regularly(self) -> None:
        await trio.sleep(self._config().log_initial_task_delay_ms / 1000)
        while True:
            await self._retried(self.compact, copies=True)
            config = self._config()
            await trio.sleep(config.log_cleaner_backoff_ms / 1000)

    async def _archive_regularly(self) -> None:
        await self._retried(self._remove_unknown)
        while True:
            if not await self._retried(self.archive_some, copies=True):
                await self._sealed.wait()

    async def _retain_regularly(self) -> None:
        config = self._config()
        await trio.sleep(config.log_initial_task_delay_ms / 1000)
        while True:
            await self._retried(self.retain)
            await trio.sleep(config.log_retention_check_interval_ms / 1000)

    async def _watch_directory(self) -> None:
        while True:
            try:
                is_in_place, self._logs.disk_space = await trio.to_thread.run_sync(self._check_disk)
            except FencedError as error:
                raise TakenOverError(f"{error}; this broker exits") from error
            if not is_in_place:
                directory = self._journal.data_directory
                raise MaintenanceFailedError(
                    f"the data directory {directory} was removed or replaced while it was in use"
                )
            await trio.sleep(WATCH_SECONDS)

    def _check_disk(self) -> tuple[bool, tuple[int, int] | None]:
        disk_space = None
        with contextlib.suppress(OSError):
            disk_space = self._journal.disk_space()
        return self._journal.is_in_place(), disk_space

    async def _remove_unknown(self) -> bool:
        async with self._writing:
            known = frozenset(log.entry_key for log in self._logs)
            # If a topic record was set aside, partitions in the archive that look unknown may belong to that topic.
            if not self._logs.knows_all_topics:
                known |= frozenset(self._archive.known())
            await trio.to_thread.run_sync(self._archive.remove_unknown, known, trio.from_thread.check_cancelled)
        return True

    async def archive_some(self) -> bool:
        """Archive the oldest complete segments of the journal; return whether there were any."""
        async with self._writing:
            segments = await trio.to_thread.run_sync(self._archiver.next_round)
            if not segments:
                return False
            # Taken after the segments: every log with batches in them exists by now.
            targets = self._logs.archive_targets()
            now_ms = self._clock_ms()
            number, edit = await trio.to_thread.run_sync(
                self._archiver.take_over, segments, targets, now_ms, trio.from_thread.check_cancelled
            )
            self._logs.show(edit)  # before the segments are recycled, since readers use them until then
            await trio.to_thread.run_sync(self._journal.recycle, number)
            return True

    async def archive_all(self) -> None:
        # Complete segments first: `seal` adds one, and only a limited number of them may wait.
        while await self.archive_some():
            pass
        await trio.to_thread.run_sync(self._journal.seal)
        while await self.archive_some():
            pass

    async def adopt(self, source: LogMaintenance, handed: Mapping[bytes, HandedLog]) -> None:
        """Copy partitions from the broker that has given them up and archived them, before this one leads them.

        Args:
            handed: by journal key.

        Raises:
            OSError: a disk failed; nothing counts.
        """
        async with source._writing, self._writing:
            await trio.to_thread.run_sync(
                adopt, self._archive, source._archive, handed, trio.from_thread.check_cancelled
            )

    async def remove_given_up(self, folders: Mapping[bytes, str]) -> None:
        """Delete the copies of partitions that another broker leads, given their folders by journal key."""
        async with self._writing:
            self._logs.forget_given_up(folders)
            await trio.to_thread.run_sync(self._archive.remove, folders)

    async def retain(self, topic: str | None = None) -> bool:
        """Delete expired segments of all topics, or of one; return whether there were any.

        Expired records that are still in the journal are archived first.
        """
        now_ms = self._clock_ms()
        logs = [log for log in self._logs if topic in (None, log.topic)]
        for some in _in_turns(logs):
            await trio.lowlevel.checkpoint()
            # Only archived segments can be deleted, so expired records in the journal are archived first. While that
            # waits for space, the archived ones are deleted at once, which frees it.
            if not self._waiting_count and any(waits_for_archive(log, now_ms) for log in some):
                await self.archive_all()
                break
        async with self._writing:
            found: dict[bytes, Expiry] = {}
            for some in _in_turns(logs):
                await trio.lowlevel.checkpoint()
                found.update(expiries(some, now_ms))
            if not found:
                return False
            edit, deleted = await trio.to_thread.run_sync(self._archive.expire, found)
            for log in self._logs.show(edit):
                self._start_raised(log)
        await self._discard(deleted)
        return True

    async def compact(self, topic: str | None = None, *, is_forced: bool = False) -> bool:
        """Compact the logs that need it, of all topics or of one; return whether any was changed.

        Nothing is compacted while `log.cleaner.enable` is false.

        Args:
            topic: the only topic; None for all.
            is_forced: compact all dirty logs, whatever `min.cleanable.dirty.ratio` says.
        """
        config = self._config()
        if not config.log_cleaner_enable:
            return False
        async with self._cleaning:
            now_ms = self._clock_ms()
            logs = [log for log in self._logs if topic in (None, log.topic)]
            compacted = [
                log for log in logs if log.policies.compaction is not None and log.entry_key not in self._uncleanable
            ]
            if any(log.index.bases and (is_forced or waits_for_archive(log, now_ms)) for log in compacted):
                await self.archive_all()
            if all(log.archived is None for log in compacted):
                return False
            next_round, clean = await compaction()
            done = False
            while (cleaning := next_round(compacted, now_ms, is_forced=is_forced)) is not None:
                try:
                    if not await self._clean(clean, cleaning, now_ms, config.log_cleaner_dedupe_buffer_size):
                        break
                except (LogError, RecordError) as error:
                    topic, partition = cleaning.plan.log.topic, cleaning.plan.log.partition
                    # As Kafka's LogCleaner marks a partition uncleanable, so that one damaged log does not stop others.
                    logger.warning("%s-%d is not compacted until the next restart: %s", topic, partition, error)
                    self._uncleanable.add(cleaning.key)
                    compacted = [log for log in compacted if log.entry_key != cleaning.key]
                else:
                    done = True
            return done

    async def _clean(
        self, clean: Callable[..., Cleaned | None], cleaning: Round, now_ms: int, dedupe_buffer_bytes: int
    ) -> bool:
        cleaned = await trio.to_thread.run_sync(
            clean,
            self._archive,
            cleaning.manifest,
            cleaning.plan,
            cleaning.last_records,
            now_ms,
            dedupe_buffer_bytes,
            trio.from_thread.check_cancelled,
        )
        if cleaned is None:
            return False
        async with self._writing:
            edit, deleted = await trio.to_thread.run_sync(self._archive.replace, cleaning.key, cleaned)
            self._logs.show(edit)
        await self._discard(deleted)
        return bool(edit.partitions)

    def commands(self) -> dict[str, Command]:
        async def compact(topic: str | None = None) -> Mapping[str, bool]:
            self._check_topic(topic)
            return {"changed": await self._retried(functools.partial(self.compact, topic, is_forced=True), copies=True)}

        async def retain(topic: str | None = None) -> Mapping[str, bool]:
            self._check_topic(topic)
            return {"changed": await self._retried(functools.partial(self.retain, topic))}

        return {"compact": compact, "retain": retain}

    def _check_topic(self, topic: str | None) -> None:
        if topic is not None and not self._logs.partitions(topic):
            raise CommandFailedError(f"unknown topic {topic!r}. Name an existing topic with --topic")

    async def _discard(self, deleted: list[DeletedSegment]) -> None:
        if self._nursery is None:
            await self._delete_files(deleted, 0)
            return
        # As in Kafka, files are deleted after `file.delete.delay.ms`, so that current readers can finish.
        delays_ms = {log.folder: log.policies.file_delete_delay_ms for log in self._logs}
        for one in deleted:
            self._nursery.start_soon(self._delete_files, [one], delays_ms.get(one.folder, 0))

    async def _delete_files(self, deleted: list[DeletedSegment], delay_ms: int) -> None:
        await trio.sleep(delay_ms / 1000)

        async def delete() -> bool:
            async with self._writing:
                await trio.to_thread.run_sync(self._archive.delete_files, deleted)
            return True

        await self._retried(delete)

    async def _retried(self, work: Callable[[], object], *, copies: bool = False) -> bool:
        """Do work, again and again while a failure such as a full disk lasts; return whether its result is true.

        Args:
            copies: whether the work writes files, and so waits after a full disk for the margin of the journal.

        Raises:
            MaintenanceFailedError: another failure, or (TakenOverError) another process has taken over the archive.
        """
        obstacle: OSError | None = None
        try:
            while True:
                try:
                    # Otherwise each attempt would write the same files to a disk that has no room for them.
                    if obstacle is None or not copies or not await self._lacks_margin(obstacle):
                        return bool(await work())  # type: ignore[misc]  # every caller passes an async function
                except Ended:
                    await trio.sleep_forever()  # the broker ends, and will cancel this task
                except OSError as error:
                    if not is_passing(error):
                        # A successor deletes objects that the archive of this broker still names.
                        await self._check_owner()
                        raise MaintenanceFailedError(f"the log cannot be archived: {error}; {NOTHING_LOST}") from error
                    is_first, obstacle = obstacle is None, error
                    if is_first:
                        await self._suspend(error)
                except FencedError as error:
                    raise TakenOverError(f"{error}; this broker exits") from error
                except JournalCorrupt as error:
                    raise MaintenanceFailedError(f"{error}; {NOTHING_LOST}") from error
                await trio.sleep(RETRY_SECONDS)
        finally:
            if obstacle is not None:
                await self._resume()

    async def _check_owner(self) -> None:
        try:
            await trio.to_thread.run_sync(self._journal.is_in_place)
        except FencedError as error:
            raise TakenOverError(f"{error}; this broker exits") from error

    async def _lacks_margin(self, obstacle: OSError) -> bool:
        return await trio.to_thread.run_sync(lacks_margin, obstacle, self._journal.disk_space)

    async def _suspend(self, obstacle: OSError) -> None:
        self._waiting_count += 1
        if self._waiting_count == 1:
            known = self._journal.room.obstacle
            # The journal has logged the advice, if it waits for the same.
            is_known = known is not None and known.errno == obstacle.errno
            logger.warning("archiving is suspended: %s", str(obstacle) if is_known else with_remedy(obstacle))
            await trio.to_thread.run_sync(self._journal.archive_waits, obstacle)

    async def _resume(self) -> None:
        self._waiting_count -= 1
        if not self._waiting_count:
            logger.warning("archiving has resumed")
            with trio.CancelScope(shield=True):  # it takes no longer than a write to the journal
                await trio.to_thread.run_sync(self._journal.archive_waits, None)
