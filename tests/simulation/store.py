"""The store of a simulation: objects in memory, far away, with a network between that loses, delays and repeats.

Rules of this file: a request is a task of its own, which goes on whatever becomes of the process that sent it: it may
be carried out after that was killed, or after it was given up. It does nothing that a store behind a network, with a
client and proxies that repeat requests, could not do. What becomes of a request is drawn; how often, the scenario says.
"""

import random
from collections import Counter

import attrs
import trio

from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import Changed, Exists, ObjectStoreError, Unavailable, Unsure
from pipeline_broker.objects.store_around import Operation, StoreAround
from tests.simulation import threads
from tests.simulation.environment import MILLISECOND

CONDITIONAL = frozenset({Operation.CREATE, Operation.REPLACE})
TIMEOUT_SECONDS = 4.0
"""After which a client of the store gives a request up."""
WRITE_FATES = ("refused", "lost before", "lost after", "late", "twice", "conflict", "repeated by the client")
FATES = {
    Operation.CREATE: WRITE_FATES,
    Operation.REPLACE: WRITE_FATES,
    Operation.UPLOAD: ("refused", "lost after"),
    Operation.COPY: ("refused", "lost after"),
    Operation.DELETE: ("refused", "lost after"),
    Operation.READ: ("refused", "silent"),
    Operation.READ_END: ("refused", "silent"),
    Operation.LIST: ("refused", "short"),
}
LATE_SECONDS = (0.3, 3.0, 6.0, 20.0, 60.0)
REFUSALS = {Operation.CREATE: Exists, Operation.REPLACE: Changed}


@attrs.frozen
class StorePlan:
    """What a store is like.

    Attributes:
        delay_ms_max: of a request, and of its answer.
        troubles: of a thousand requests, how many do not simply succeed, once the clients are there.
        is_remote: a network is between, so that an end does not wait for it; see `archive_store`.
        entries_a_segment: how many entries of the journal are archived together.
        copied_bytes_min: from this size on the archive copies a batch inside the store.
    """

    delay_ms_max: int
    troubles: int
    is_remote: bool
    entries_a_segment: int
    copied_bytes_min: int


@attrs.frozen
class Outage:
    """Requests of all, or of one process, that arrive until then are refused, or get no answer."""

    until: float
    process: object
    is_silent: bool


class SimulatedStore:
    """One store, for all processes.

    Args:
        plan: what it is like.
        dice: what becomes of requests.
        note: takes note of what happens to them.

    Attributes:
        sound: what is in it.
        is_troubled: what becomes of requests is drawn; else they succeed.
        is_slow: requests take longer.
        seen: how often what is of interest has happened.
        on_applied: called with a conditional request that has been carried out, its process and whether it is given up.
    """

    def __init__(self, plan, seed, note):
        self.plan = plan
        self.sound = MemoryStore()
        self.is_troubled = self.is_slow = False
        self.outages = []
        self.seen = Counter()
        self._dice = random.Random(f"store {seed}")
        self._note = note
        self._under_way = 0

    def of(self, process):
        """As a process reaches it."""
        return _Reached(self, process)

    def settle(self):
        """From here on all is well."""
        self.is_troubled = self.is_slow = False
        self.outages.clear()

    def fail(self, seconds, *, process=None, is_silent):
        self.outages.append(Outage(trio.current_time() + seconds, process, is_silent))

    def outage_of(self, process):
        now = trio.current_time()
        return next((one for one in self.outages if now < one.until and one.process in (None, process)), None)

    def delay(self):
        seconds = self._dice.randint(0, self.plan.delay_ms_max) * MILLISECOND
        return 30 * seconds if self.is_slow else seconds

    def draw(self, operation):
        if not self.is_troubled or self._dice.randrange(1000) >= self.plan.troubles:
            return "done"
        return self._dice.choice(FATES[operation])

    def send(self, flight):
        self._note("store", flight.request.operation.value, flight.fate)
        self._under_way += 1
        trio.lowlevel.spawn_system_task(self._fly, flight)

    async def all_landed(self):
        """Return when nothing that was sent so far may still be carried out."""
        until = trio.current_time() + 2 * max(LATE_SECONDS)
        while self._under_way and trio.current_time() < until:
            await trio.sleep(LATE_SECONDS[0])

    async def _fly(self, flight):
        await self._carry(flight)
        self._under_way -= 1

    async def _carry(self, flight):
        fate, operation = flight.fate, flight.request.operation
        late = self._dice.choice(LATE_SECONDS) if fate in {"late", "twice"} else 0.0
        await trio.sleep(self.delay() + (late if fate == "late" else 0.0))
        outage = self.outage_of(flight.process)
        if outage is not None:
            if not outage.is_silent:
                flight.end(Unavailable("503: the store is away"))
            elif operation in CONDITIONAL and self._dice.randrange(2):
                self._apply(flight)  # it arrived in time, its answer does not
            return
        if fate == "refused":
            flight.end(Unavailable("503: slow down"))
        elif fate == "conflict":
            flight.end(REFUSALS[operation]("409"))
        elif fate == "lost before":
            flight.end(Unsure("the connection broke"))
        elif fate != "silent":
            await self._carry_out(flight, late)

    async def _carry_out(self, flight, late):
        fate, operation = flight.fate, flight.request.operation
        answer = self._apply(flight)
        if fate == "repeated by the client":
            answer = self._apply(flight)
        elif fate == "short" and answer:
            answer = answer[:1]
        await trio.sleep(self.delay())
        if fate == "lost after":
            flight.end((Unsure if operation in CONDITIONAL else Unavailable)("the connection broke"))
        else:
            flight.end(answer)
        if fate == "twice":
            await trio.sleep(late)
            self._apply(flight)

    def _apply(self, flight):
        try:
            answer = flight.send()
        except ObjectStoreError as error:
            return error
        if flight.request.operation in CONDITIONAL:
            self.seen[f"{flight.request.operation} applied"] += 1
            if flight.is_unsure:
                self.seen["an unsure PUT was applied"] += 1
            if flight.process.is_dead:
                self.seen["a PUT of a killed process was applied"] += 1
            if flight.fate == "lost after":
                self.seen["an unsure PUT was applied"] += 1
        return answer


class _Flight:
    """A request on its way.

    Attributes:
        is_unsure: who has sent it has given it up.
    """

    def __init__(self, request, send, process, fate):
        self.request, self.send, self.process, self.fate = request, send, process, fate
        self.is_unsure = False
        self.answer = None
        self._ended = trio.Event()

    def end(self, answer):
        if not self._ended.is_set():
            self.answer = answer
            self._ended.set()

    def wait(self, thread):
        """What the store has answered; raises what it refused with."""
        if not thread.wait(self._ended, TIMEOUT_SECONDS):
            self.is_unsure = True
            raise (Unsure if self.request.operation in CONDITIONAL else Unavailable)("no answer in time")
        if isinstance(self.answer, ObjectStoreError):
            raise self.answer
        return self.answer


class _Reached(StoreAround):
    """A store as one process reaches it, from its threads."""

    def __init__(self, simulated, process):
        super().__init__(simulated.sound)
        self._simulated, self._process = simulated, process
        self.in_flight = 0

    def ask(self, request, send):
        thread = threads.running()
        if thread is None:
            raise threads.StuckLoopError(f"the event loop asks the store: {request}")
        flight = _Flight(request, send, self._process, self._simulated.draw(request.operation))
        self._simulated.send(flight)
        is_put = request.operation is Operation.CREATE and "wal/" in request.name
        self.in_flight += is_put
        try:
            return flight.wait(thread)
        finally:
            self.in_flight -= is_put
