"""The checks inside a simulated broker, at each event.

Checks: Requests start in order. Nothing is read while a bound or throttle forbids it. Slots end once. Nothing is
acknowledged or written after a failed commit. Nothing is held at the end.

Rules of this file: a watch stands around what it watches and changes nothing, except that it raises and throttles
where the scenario says so. It knows the bounds themselves, not how the broker keeps them.
"""

import contextvars
import zlib
from collections import defaultdict

import trio

from pipeline_broker.apis.dispatch import FIXED
from pipeline_broker.wire.registry import ApiKey
from stages.mute import MuteReason
from stages.request import PARKED, Close, NoOp, Pending, Send, Unfinished, go_on
from stages.response_order import ResponseOrder
from tests.simulation.environment import MILLISECOND
from tests.simulation.listeners import SASL, USER

TOPIC = "events"
HARMLESS = frozenset({ApiKey.METADATA, ApiKey.API_VERSIONS})
SPARED = ("admin", "reader")
"""The clients that prepare a scenario and read what it left."""


class InjectedError(Exception):
    """What a handler raises because the scenario says so."""


class Watch:
    """The application of a simulated broker, around the real one; and all that is known of one life of it.

    Attributes:
        synced: (topic, partition, offset) of records whose commit was synced.
        failed_at: when a commit failed; None for never.
        closed_by_us: indexes of connections that a handler's result closed.
        requests_in_turns: how many requests took several turns.
    """

    def __init__(self, scenario, trace, complain, injected, check_stored=lambda _: None):
        self.scenario = scenario
        self.server = None
        self.synced = set()
        self.failed_at = None
        self.closed_by_us = set()
        self.throttled_until = defaultdict(float)
        self._application = self._broker = None
        self._trace = trace
        self._complain = complain
        self._injected = injected
        self._check_stored = check_stored  # called with the ticket of what the journal says to be durable
        self._last = {}  # connection index -> the request of it that started last
        self._pending = defaultdict(list)  # request -> its entries
        self._unfinished = set()  # requests that take several turns
        self.requests_in_turns = 0
        self._visible = defaultdict(int)
        self._recovered = defaultdict(int)

    def around(self, application, broker, journal):
        """Stand around them; returns what to serve with."""
        self._application = application
        self._broker = broker
        self._watch_journal(journal)
        for log in broker.logs:
            self._recovered[log.topic, log.partition] = log.high_watermark
        return self

    # The application

    def handle(self, request):
        """See Application."""
        connection = request.connection
        self._trace.note("start", connection.index, request.sequence, request.queue)
        self._check_start(connection, request)
        self._check_high_watermarks()
        if request.sequence == 0:
            self._watch_throttles(connection)
        if connection.listener == SASL and connection.session.principal.name != USER:
            self._complain(f"{request!r} is served although its client did not say who it is")
        if connection.peer in SPARED:
            return self._decide(request)
        dice = zlib.crc32(f"{self.scenario.script_seed} {connection.index} {request.sequence}".encode())
        request.api, request.version, request.correlation_id = FIXED.unpack_from(request.frame)
        self._trouble(request, dice)
        if (dice >> 5) % 1000 < self.scenario.callbacks and request.api in HARMLESS:
            delay = (dice >> 15) % 10 * MILLISECOND
            trio.lowlevel.spawn_system_task(self._call_back, request, delay, context=contextvars.copy_context())
            return PARKED
        return self._decide(request)

    async def _call_back(self, request, delay):
        await trio.sleep(delay)
        request.connection.call_back(request, lambda: self._decide(request))

    def _decide(self, request):
        return self._watched(request, self._application.handle(request))

    def _watched(self, request, result):
        """The result; where it is not there yet, steps that are watched."""
        if type(result) is Unfinished:
            self.requests_in_turns += 1
            return go_on(self._watched_steps(request, result))
        if type(result) is Pending:
            self._pending[request] += result.entries
        elif type(result) is Close:
            self.closed_by_us.add(request.connection.index)
        return result

    def _watched_steps(self, request, unfinished):
        self._unfinished.add(request)
        try:
            while type(unfinished) is Unfinished:
                steps, first = unfinished.steps, unfinished.first
                if type(first) is Pending:
                    self._pending[request] += first.entries
                try:
                    value, error = (yield first), None
                except Exception as problem:  # noqa: BLE001 - it is raised in the steps
                    value, error = None, problem
                unfinished = go_on(steps, value, error)
        finally:
            steps.close()
            self._unfinished.discard(request)
        return self._watched(request, unfinished)

    def _trouble(self, request, dice):
        """Throttle or raise where the scenario says so."""
        if dice % 1000 < self.scenario.throttles:
            request.connection.throttle((dice >> 10) % 1000 / 1000 * self.scenario.throttle_max)
        if (dice >> 20) % 1000 < self.scenario.raises and self._injected(request):
            raise InjectedError

    def failed(self, request, error):
        """See Application."""
        if not isinstance(error, InjectedError):
            self._complain(f"a handler raised {error!r} for {request!r}")
        return self._watched(request, self._application.failed(request, error))

    def connection_closed(self, session):
        """See Application."""
        self._application.connection_closed(session)

    def _check_start(self, connection, request):
        last = self._last.get(connection.index)
        if request.sequence != (0 if last is None else last.sequence + 1):
            self._complain(f"{request!r} started behind {last!r}")
        if any(one.connection is connection for one in self._unfinished):
            self._complain(f"{request!r} started before an earlier one had its last turn")
        if last is not None and last.queue != request.queue and request.depth != 1:
            self._complain(f"{request!r} changed from queue {last.queue} to {request.queue} with others in flight")
        self._last[connection.index] = request

    def _watch_throttles(self, connection):
        """Know until when the connection is throttled, by whomever: of overlapping throttles the later end counts."""
        throttle, until = connection.throttle, self.throttled_until

        def watched(seconds):
            until[connection.index] = max(trio.current_time() + seconds, until[connection.index])
            throttle(seconds)

        connection.throttle = watched

    # The journal

    def _watch_journal(self, journal):
        write, sync = journal.write, journal.sync
        written, tried = {}, {}  # by the ids of tickets, which are kept

        def watched_write(entries):
            has_failed = self.failed_at is not None
            try:
                ticket = write(entries)
            except Exception:
                self._commit_failed()
                raise
            written[id(ticket)] = [
                (entry.log.topic, entry.log.partition, offset)
                for entry in entries
                for offset in range(entry.base_offset, entry.last_offset + 1)
            ]
            if has_failed:
                self._complain("something was written after a commit had failed")
            return ticket

        def watched_sync(ticket):
            if id(ticket) in tried:
                self._complain("a sync was tried a second time")
            tried[id(ticket)] = ticket
            try:
                sync(ticket)
            except Exception:
                self._commit_failed()
                raise
            self._check_stored(ticket)
            self.synced.update(written.pop(id(ticket), ()))

        journal.write, journal.sync = watched_write, watched_sync

    def _commit_failed(self):
        if self.failed_at is None:
            self.failed_at = trio.current_time()

    def is_durable(self, topic, partition, offset):
        return offset < self._recovered[topic, partition] or (topic, partition, offset) in self.synced

    def check_durable(self, what, partition, offsets, topic=TOPIC):
        for offset in offsets:
            if not self.is_durable(topic, partition, offset):
                self._complain(f"{what}: {topic}-{partition} offset {offset} is not durable")

    def _check_high_watermarks(self):
        for log in self._broker.logs:
            key = log.topic, log.partition
            if log.high_watermark < self._visible[key]:
                self._complain(f"the durable prefix of {log!r} shrank")
            self._visible[key] = log.high_watermark

    # The responses

    def response_order(self, order=ResponseOrder):
        """A class of response orders that are watched."""
        watch = self

        class Watched(order):
            __slots__ = ()

            def open(self, slot):
                watch.check_open(slot, self)
                super().open(slot)

            def complete(self, slot, result):
                watch.check_complete(slot, result)
                released = super().complete(slot, result)
                for request in released:
                    watch._trace.note("release", request.connection.index, request.sequence)
                return released

        return Watched

    def check_open(self, request, order):
        """Nothing forbids that the request was read."""
        connection, server = request.connection, self.server
        limits, channel = connection._owner.limits, connection._owner.channel
        facts = {
            "in flight": len(order) < server.mode.in_flight_max,
            "throttled": trio.current_time() >= self.throttled_until[connection.index],
            "unsent bytes": connection.unsent_bytes < limits.unsent_bytes_max
            or connection._is_marked,  # released in this turn, and not tried to be sent yet
            "queued bytes": channel.bytes_held < channel.bytes_max,
            "draining": MuteReason.DRAINING not in connection.mute,
        }
        for name, holds in facts.items():
            if not holds:
                self._complain(f"{request!r} was read although it must not be: {name}")

    def check_complete(self, request, result):
        """A slot ends once, and an acknowledgement is of what is durable."""
        told = "NoOp" if type(result) is NoOp else repr(result)  # the others say what they are
        self._trace.note("complete", request.connection.index, request.sequence, told)
        if request.result is not None:
            self._complain(f"{request!r} was answered twice")
        entries = self._pending.pop(request, ())
        if type(result) in (Send, NoOp):
            for entry in entries:
                self.check_durable(
                    f"{request!r} is acknowledged", entry.log.partition, [entry.last_offset], entry.log.topic
                )

    # The end

    def started(self, index):
        """How many requests of a connection started."""
        last = self._last.get(index)
        return 0 if last is None else last.sequence + 1

    def check_nothing_held(self):
        """Nothing is held by requests that are over."""
        for plane in (self.server._data_plane, self.server._control_plane):
            channel = plane.channel
            queues = (*channel.queues, *channel.retired)
            waiting = [one for queue in queues for one in queue.requests if not one.connection.closed]
            held = channel.bytes_held, len(waiting), sum(queue.connections for queue in queues)
            if any(held):
                self._complain(f"at the end bytes, requests and connections are held: {held}")
            if plane.handlers.statistics().unfinished:
                self._complain("at the end requests are unfinished")
        if self._broker.large_requests or self._broker.long_batches:
            self._complain("at the end requests have places that they gave back never")
