"""What becomes of the logs while a broker serves: they go to the archive, and what is old goes.

Rules of this room: it decides nothing; what is to be done comes from the synchronous rooms, blocks, and is done in a
thread, one writer of the archive at a time. Where that may take long, the end of the broker cuts it short at a point
where a kill does no harm either. The event loop shows each edit to the logs before anything that it makes
superfluous is given up. A disk that is full, or a want of descriptors, is waited for; every other failure ends the
broker, because what a failed sync left behind can never be trusted again by this process. A log with damage in it is
not compacted any more.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.files.errors import Ended, FencedError, is_passing, with_remedy
from pipeline_broker.log.archive.archive import Archive, Cleaned, DeletedSegment, Expiry
from pipeline_broker.log.archive.archiver import Archiver
from pipeline_broker.log.errors import JournalCorrupt, LogError
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.partition.partition_log import PartitionLog
from pipeline_broker.log.partition.retention_of_logs import expiries, waits_for_archive
from pipeline_broker.node.admin_socket import Command, CommandFailedError
from pipeline_broker.node.thread_wakeup import ThreadWakeup
from pipeline_broker.records.errors import RecordError

if TYPE_CHECKING:
    from pipeline_broker.log.partition.compaction_of_logs import Round

__all__ = ["TakenOverError", "Upkeep", "UpkeepFailedError", "sealed_segments_max"]

logger = logging.getLogger(__name__)

COMPACTION = "pipeline_broker.log.partition.compaction_of_logs"
RETRY_SECONDS = 1.0
"""After which a full disk is tried again."""
LOOKED_AT_IN_A_TURN = 300
"""Logs of which the event loop finds out in one turn what may be deleted: about 2 ms."""
WATCH_SECONDS = 1.0
"""How often the data directory is looked for, and how much room its disk has."""
NOTHING_LOST = "nothing that was acknowledged is lost"


def _in_turns(logs: Sequence[PartitionLog]) -> Iterator[Sequence[PartitionLog]]:
    """So many logs as are looked at in one turn of the event loop."""
    for first in range(0, len(logs), LOOKED_AT_IN_A_TURN):
        yield logs[first : first + LOOKED_AT_IN_A_TURN]


def sealed_segments_max(at_once: int) -> int:
    """Complete journal segments that may wait for the archive before writers wait; a start has to replay one more.

    They are those of a round of the archive, those of the next one, and one. Where batches are large the journal lets
    more of them wait.
    """
    return 2 * at_once + 1


def load_compaction() -> tuple[Callable[..., Round | None], Callable[..., Cleaned | None]]:
    """What finds the next round of compaction, and what carries it out."""
    from pipeline_broker.log.compaction.cleaning import clean  # noqa: PLC0415 - see `compaction`
    from pipeline_broker.log.partition.compaction_of_logs import next_round  # noqa: PLC0415 - see `compaction`

    return next_round, clean


async def compaction() -> tuple[Callable[..., Round | None], Callable[..., Cleaned | None]]:
    """The same, imported once something archived could be compacted: many brokers end before.

    The first time a thread does it, so that clients are answered meanwhile.
    """
    if COMPACTION not in sys.modules:
        await trio.to_thread.run_sync(load_compaction)
    return load_compaction()


class UpkeepFailedError(Exception):
    """The archive cannot be written: the broker must end; the text is one line."""


class TakenOverError(UpkeepFailedError):
    """Another process has the archive now: the broker must end; the text is one line."""


class Upkeep:
    """See the rules of the room.

    Args:
        logs: whose journal and archive are kept.
        config: of the broker, as it is now.
        clock_ms: wall clock.
        sealed: called when a segment of the journal is complete.
        start_raised: called with a log whose start has risen.
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
        self._waiting_count = 0  # of the tasks, those that wait for room
        self._uncleanable: set[bytes] = set()  # logs with damage in them, until the next start
        self._sealed = sealed
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Archive what is complete, until cancelled.

        Raises:
            UpkeepFailedError: the disk failed, or another process has the archive.
        """
        self._sealed.begin()
        self._journal.attach_archiver(sealed_segments_max(self._archiver.segments_at_once))
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                nursery.start_soon(self._archive_what_is_complete)
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
            await self._retried(self.compact)
            config = self._config()
            await trio.sleep(config.log_cleaner_backoff_ms / 1000)

    async def _archive_what_is_complete(self) -> None:
        await self._retried(self._remove_unknown)
        while True:
            if not await self._retried(self.archive_some):
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
                is_in_place = await trio.to_thread.run_sync(self._look_at_disk)
            except FencedError as error:
                raise TakenOverError(f"{error}; this one ends") from error
            if not is_in_place:
                directory = self._journal.data_directory
                raise UpkeepFailedError(f"the data directory {directory} was removed or replaced while it was in use")
            await trio.sleep(WATCH_SECONDS)

    def _look_at_disk(self) -> bool:
        """Take note of how much room there is; whether the data directory is in place."""
        try:
            self._logs.disk_space = self._journal.disk_space()
        except OSError:
            self._logs.disk_space = None
        return self._journal.is_in_place()

    async def _remove_unknown(self) -> bool:
        async with self._writing:
            known = frozenset(log.entry_key for log in self._logs)
            if not self._logs.knows_all_topics:
                known |= frozenset(self._archive.known())
            await trio.to_thread.run_sync(self._archive.remove_unknown, known, trio.from_thread.check_cancelled)
        return True

    async def archive_some(self) -> bool:
        """Take the oldest complete segments over; whether there were any."""
        async with self._writing:
            segments = await trio.to_thread.run_sync(self._archiver.next_round)
            if not segments:
                return False
            targets = self._logs.archive_targets()  # every log that these may have batches of is there by now
            now_ms = self._clock_ms()
            number, edit = await trio.to_thread.run_sync(
                self._archiver.take_over, segments, targets, now_ms, trio.from_thread.check_cancelled
            )
            self._logs.show(edit)
            await trio.to_thread.run_sync(self._journal.recycle, number)
            return True

    async def archive_all(self) -> None:
        """Take over everything that is durable by now; first what is complete, because so much may not wait."""
        while await self.archive_some():
            pass
        await trio.to_thread.run_sync(self._journal.seal)
        while await self.archive_some():
            pass

    async def retain(self, topic: str | None = None) -> bool:
        """Delete what the rules of the topics, or of one topic, let go; whether there was anything."""
        now_ms = self._clock_ms()
        logs = [log for log in self._logs if topic in (None, log.topic)]
        for some in _in_turns(logs):
            await trio.lowlevel.checkpoint()
            if any(waits_for_archive(log, now_ms) for log in some):
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
        """Clean the logs that are due, of one topic or of all; whether there was anything.

        Args:
            is_forced: clean whatever is dirty, however little it is.
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
                    logger.warning("%s-%d is not compacted any more: %s", topic, partition, error)
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
        """What can be asked for from outside, by name."""

        async def compact(topic: str | None = None) -> Mapping[str, bool]:
            self._check_topic(topic)
            return {"changed": await self._retried(functools.partial(self.compact, topic, is_forced=True))}

        async def retain(topic: str | None = None) -> Mapping[str, bool]:
            self._check_topic(topic)
            return {"changed": await self._retried(functools.partial(self.retain, topic))}

        return {"compact": compact, "retain": retain}

    def _check_topic(self, topic: str | None) -> None:
        if topic is not None and not self._logs.partitions(topic):
            raise CommandFailedError(f"there is no topic {topic!r}")

    async def _discard(self, deleted: list[DeletedSegment]) -> None:
        """Delete files, while the broker serves a moment later, as Kafka does: whoever reads them is not disturbed."""
        if self._nursery is None:
            await self._delete_files(deleted, 0)
            return
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

    async def _retried(self, work: Callable[[], object]) -> bool:
        """Do work that returns whether there was any, again as long as there is no room for it."""
        is_waiting = False
        try:
            while True:
                try:
                    return bool(await work())  # type: ignore[misc]  # told by who calls
                except Ended:
                    await trio.sleep_forever()  # which is until the end has come here
                except OSError as error:
                    if not is_passing(error):
                        raise UpkeepFailedError(f"the log cannot be archived: {error}; {NOTHING_LOST}") from error
                    if not is_waiting:
                        is_waiting = True
                        await self._begin_to_wait(error)
                    await trio.sleep(RETRY_SECONDS)
                except FencedError as error:
                    raise TakenOverError(f"{error}; this one ends") from error
                except JournalCorrupt as error:
                    raise UpkeepFailedError(f"{error}; {NOTHING_LOST}") from error
        finally:
            if is_waiting:
                await self._end_to_wait()

    async def _begin_to_wait(self, obstacle: OSError) -> None:
        self._waiting_count += 1
        if self._waiting_count == 1:
            logger.warning("the archive waits: %s", with_remedy(obstacle))
            await trio.to_thread.run_sync(self._journal.archive_waits, obstacle)

    async def _end_to_wait(self) -> None:
        self._waiting_count -= 1
        if not self._waiting_count:
            logger.warning("the archive goes on")
            with trio.CancelScope(shield=True):  # as short as a write of the journal
                await trio.to_thread.run_sync(self._journal.archive_waits, None)
