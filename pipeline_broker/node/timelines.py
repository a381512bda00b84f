"""Publishes the timelines of requests to an internal topic, while somebody wants it.

Rules of this room: off, it is a parked task and no observer, and the request path pays nothing. On, a request costs one
row in a bounded ring; a few times a second a thread makes record batches of what is there, and the event loop hands
them over as entries that no request waits for: what is published has no timeline of its own. One publication is in
work at a time, so that what a slow disk holds up waits in the ring; what finds no room there is counted, is told in
every record, and is one line of the log. The partitions of the topic take turns, a batch each, so that they grow alike
and a reader of all of them stays in step. A session is what is published between on and off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import trio

from pipeline_broker.telemetry.timelines_topic import TIMELINES_TOPIC
from stages.durable import wait_durable
from stages.timeline import now_ns

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker
    from pipeline_broker.log.journal.entry import JournalEntry
    from pipeline_broker.node.admin_socket import Command
    from pipeline_broker.telemetry.timeline_records import TimelineBatches, TimelineRows
    from stages.socket_server import SocketServer
    from stages.timeline import Timeline

__all__ = ["PUBLISH_SECONDS", "Timelines"]

logger = logging.getLogger(__name__)

PUBLISH_SECONDS = 0.25
"""How long rows wait for more of them: a quarter of a second of age, and at most four commits a second."""
RETRY_SECONDS = 1.0
"""After which it is tried again where the disk is full."""
END_SECONDS_MAX = 1.0
"""How long the last publication may hold up the end of the broker."""
SESSION_BYTES = 8


class Timelines:
    """See the rules of the room.

    Args:
        broker: whose topic it is.
        server: commits what is published.
        observe: has the server report to a timeline of ours as well, or, with None, no longer.
        clock_ms: wall clock.
        rows_max: timelines that may wait; that of `timeline_records` unless given.
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
        self._unwritten: list[bytes] = []  # batches that found no topic or no disk; of one publication at most
        self._batches_appended = 0  # by which the partitions take turns
        self._is_on = False
        self._changed = trio.lowlevel.ParkingLot()
        self._published_rows = self._published_records = 0  # durable, of the current session or the last one
        self._lost = 0  # as it was last told
        self._was_losing = False

    def switch_on(self) -> None:
        """Publish what is received from now on; a new session. Nothing of a former one may wait any more."""
        if self._is_on:
            return
        assert self._rows is None, "whoever switches it on waits for the end of the former session"
        from pipeline_broker.log.archive.pace import Pace  # noqa: PLC0415 - for those who asked
        from pipeline_broker.telemetry.timeline_records import (  # noqa: PLC0415 - see above
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
        """Publish what is there, and nothing more; returns when that is durable, or the broker ends."""
        if self._is_on:
            self._is_on = False
            self._observe(None)
            self._changed.unpark_all()
        await self._ended()

    async def end(self) -> None:
        """The broker is about to end: publish what is there, if it does not take long."""
        with trio.move_on_after(END_SECONDS_MAX):
            await self.switch_off()

    async def _ended(self) -> None:
        """Return when no session is about to end."""
        while self._rows is not None and not self._is_on:
            await self._changed.park()

    def status(self) -> dict[str, Any]:
        """What `pipeline-broker timelines` prints: of the current session, or of the last one."""
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
        """The commands, by name, for `serve_admin`."""

        async def on() -> Mapping[str, Any]:
            await trio.lowlevel.checkpoint()
            await self._ended()
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
        """Publish until cancelled."""
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
        """Until it is switched off and all is published."""
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
        """Publish what is there, if that is possible now; whether it was."""
        self._tell_lost(rows.lost)
        if not self._broker.can_write:
            return False
        batches = self._batches
        assert batches is not None, "it is made with the rows"
        if not self._unwritten:
            taken = rows.ring.take()
            if not taken:
                return True
            self._unwritten = await trio.to_thread.run_sync(batches.encode, taken, rows.lost, self._clock_ms())
        if self._broker.logs.find(TIMELINES_TOPIC, 0) is None and not await self._create_topic():
            return False
        entries = self._append(self._unwritten)
        if entries is None or await wait_durable(self._server, entries) is not None:
            return False
        self._unwritten = []
        self._published_rows, self._published_records = batches.rows, batches.records
        return True

    def _tell_lost(self, lost: int) -> None:
        """Say once that rows are lost, until none was for the length of a publication."""
        if lost > self._lost and not self._was_losing:
            logger.warning("request timelines are lost: %d found no room to wait for their publication", lost)
        self._was_losing = lost > self._lost
        self._lost = lost

    def _topic_id(self) -> bytes | None:
        topic = self._broker.topics.get(TIMELINES_TOPIC)
        return None if topic is None else topic.topic_id

    async def _create_topic(self) -> bool:
        """Make the topic, unless it is on its way already; whether it is there now."""
        broker = self._broker
        if broker.topics.latest(TIMELINES_TOPIC) is not None:
            return False
        write = broker.topics.create(broker.new_topic(TIMELINES_TOPIC))
        entry = broker.append_metadata(write, self._clock_ms())
        return await wait_durable(self._server, [entry], lambda: broker.topic_durable(write)) is None

    def _append(self, batches: list[bytes]) -> list[JournalEntry] | None:
        from pipeline_broker.records.batch import read_header  # noqa: PLC0415 - for those who asked

        logs = self._broker.logs.partitions(TIMELINES_TOPIC)
        if not logs:
            return None
        now_ms = self._clock_ms()
        entries = []
        for batch in batches:
            log = logs[self._batches_appended % len(logs)]
            self._batches_appended += 1
            entries.append(log.append(read_header(batch), batch, now_ms).entry)
        return [entry for entry in entries if entry is not None]
