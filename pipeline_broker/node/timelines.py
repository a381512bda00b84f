"""Publication of request timelines to an internal topic, which operators switch on and off."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from pipeline_broker.log.archive.pace import Pace
from pipeline_broker.records.batch import read_header
from pipeline_broker.telemetry.timelines_topic import TIMELINES_TOPIC
from stages.durable import wait_durable
from stages.timeline import now_ns

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.log.journal.entry import JournalEntry
    from pipeline_broker.node.operator_commands import Command
    from pipeline_broker.telemetry.timeline_records import TimelineBatches, TimelineRows
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["PUBLISH_SECONDS", "Timelines"]

logger = logging.getLogger(__name__)

PUBLISH_SECONDS = 0.25
"""Interval of publications, which limits the age of rows and the rate of commits."""
# Interval of the attempts while the disk is full.
RETRY_SECONDS = 1.0
# The longest delay of the shutdown by the last publication.
END_SECONDS_MAX = 1.0
SESSION_BYTES = 8


class Timelines:
    """The publisher of request timelines.

    Switched off, it observes nothing and costs nothing. Switched on, a request adds one row to a bounded ring. A few
    times a second a thread encodes the rows as record batches, and the event loop appends and commits these without a
    request. So publications have no timelines themselves. A session is the time between on and off.

    Args:
        server: commits the entries.
        observe: sets the timeline that the server reports to, in addition to others; None removes it.
        clock_ms: wall clock.
        rows_max: size of the ring; RING_ROWS_MAX by default.
    """

    def __init__(
        self,
        broker: Broker,
        server: SocketServer,
        observe: Callable[[Timeline | None], None],
        clock_ms: Callable[[], int],
        rows_max: int | None = None,
    ) -> None:
        self._broker = broker
        self._server = server
        self._observe = observe
        self._clock_ms = clock_ms
        self._rows_max = rows_max
        self._rows: TimelineRows | None = None
        self._batches: TimelineBatches | None = None
        self._unwritten: list[bytes] = []  # encoded batches of the publication in progress, to try again
        self._batches_appended = 0  # selects the partition of the next batch
        self._is_on = False
        self._changed = trio.lowlevel.ParkingLot()
        self._published_rows = self._published_records = 0  # durable ones of the latest session
        self._lost = 0  # as in the latest check
        self._was_losing = False

    def switch_on(self) -> None:
        """Start a session, unless one is on. The previous one must have ended completely."""
        if self._is_on:
            return
        assert self._rows is None, "callers wait for the end of the previous session"
        from pipeline_broker.telemetry.timeline_records import (  # noqa: PLC0415 - only if switched on
            RING_ROWS_MAX,
            TimelineBatches,
            TimelineRows,
        )

        session = self._broker.new_id().hex[: 2 * SESSION_BYTES]
        offset_ns = self._clock_ms() * 1_000_000 - now_ns()
        self._batches = TimelineBatches(session, self._server.mode.name, offset_ns, Pace())
        self._rows = TimelineRows(self._topic_id, self._rows_max or RING_ROWS_MAX)
        self._published_rows = self._published_records = self._lost = 0
        self._was_losing = False
        self._is_on = True
        self._observe(self._rows)
        self._changed.unpark_all()

    async def switch_off(self) -> None:
        """End the session: stop observing, then return once all rows are durable."""
        if self._is_on:
            self._is_on = False
            self._observe(None)
            self._changed.unpark_all()
        await self._wait_session_end()

    async def end(self) -> None:
        """Publish the remaining rows before shutdown, for at most END_SECONDS_MAX."""
        with trio.move_on_after(END_SECONDS_MAX):
            await self.switch_off()

    async def _wait_session_end(self) -> None:
        while self._rows is not None and not self._is_on:
            await self._changed.park()

    def status(self) -> dict[str, Any]:
        return {
            "on": self._is_on,
            "topic": TIMELINES_TOPIC,
            "session": None if self._batches is None else self._batches.session,
            "rows": self._published_rows,
            "records": self._published_records,
            "waiting": 0 if self._rows is None else len(self._rows.ring),
            "lost": self._lost if self._rows is None else self._rows.lost,
        }

    def commands(self) -> dict[str, Command]:
        async def on() -> Mapping[str, Any]:
            await trio.lowlevel.checkpoint()
            await self._wait_session_end()
            self.switch_on()
            return self.status()

        async def off() -> Mapping[str, Any]:
            await self.switch_off()
            return self.status()

        async def status() -> Mapping[str, Any]:
            await trio.lowlevel.checkpoint()
            return self.status()

        return {"timelines on": on, "timelines off": off, "timelines status": status}

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        task_status.started()
        try:
            while True:
                if self._rows is None:
                    await self._changed.park()
                else:
                    await self._publish_regularly(self._rows)
        finally:
            left = 0 if self._rows is None else len(self._rows.ring) + self._unpublished_rows
            if left:
                logger.warning("%d request timelines were not published: the broker ended", left)

    @property
    def _unpublished_rows(self) -> int:
        return 0 if self._batches is None else self._batches.rows - self._published_rows

    async def _publish_regularly(self, rows: TimelineRows) -> None:
        while self._is_on:
            with trio.move_on_after(PUBLISH_SECONDS):
                await self._changed.park()
            await self._publish(rows)
        while len(rows.ring) or self._unwritten:
            if not await self._publish(rows):
                await trio.sleep(RETRY_SECONDS)
        self._lost = rows.lost
        self._rows = None
        self._changed.unpark_all()

    async def _publish(self, rows: TimelineRows) -> bool:
        self._log_lost(rows.lost)
        if not self._broker.can_write:
            return False
        batches = self._batches
        assert batches is not None, "`switch_on` makes batches and rows together"
        # One publication at a time: while the disk is slow, rows wait in the bounded ring, which counts lost ones.
        if not self._unwritten:
            taken = rows.ring.take()
            if not taken:
                return True
            self._unwritten = await trio.to_thread.run_sync(batches.encode, taken, rows.lost, self._clock_ms())
        if not self._broker.logs.partitions(TIMELINES_TOPIC) and not await self._create_topic():
            return False
        entries = self._append(self._unwritten)
        if entries is None or await wait_durable(self._server, entries) is not None:
            return False
        self._unwritten = []
        self._published_rows, self._published_records = batches.rows, batches.records
        return True

    def _log_lost(self, lost: int) -> None:
        # Once, until one publication interval passes without a loss.
        if lost > self._lost and not self._was_losing:
            logger.warning("%d request timelines were lost: the ring was full", lost)
        self._was_losing = lost > self._lost
        self._lost = lost

    def _topic_id(self) -> bytes | None:
        topic = self._broker.topics.get(TIMELINES_TOPIC)
        return None if topic is None else topic.topic_id

    async def _create_topic(self) -> bool:
        broker = self._broker
        # In a cluster the controller creates it, and a broker publishes into the partitions that it leads.
        if broker.topics.latest(TIMELINES_TOPIC) is not None or broker.controller is not None:
            return False
        write = broker.topics.create(broker.new_topic(TIMELINES_TOPIC))
        entry = broker.append_metadata(write, self._clock_ms())
        return await wait_durable(self._server, [entry], lambda: broker.topic_durable(write)) is None

    def _append(self, batches: list[bytes]) -> list[JournalEntry] | None:
        logs = self._broker.logs.partitions(TIMELINES_TOPIC)
        if not logs:
            return None
        now_ms = self._clock_ms()
        entries = []
        # Partitions take turns, so that they grow equally, and a reader of all partitions gets rows of similar age.
        for batch in batches:
            log = logs[self._batches_appended % len(logs)]
            self._batches_appended += 1
            entries.append(log.append(read_header(batch), batch, now_ms).entry)
        return [entry for entry in entries if entry is not None]
