"""Runs a script of requests against a whole server in memory, on a mock clock, and records what happens."""

import itertools
from collections import Counter, defaultdict
from contextlib import nullcontext
from types import SimpleNamespace

import attrs
import pytest
import trio
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from stages import committer, unfinished
from stages.connection_limits import ConnectionLimits
from stages.response_order import ResponseOrder
from stages.socket_server import ServerLimits
from stages.testing.drawn_commits import DrawnCommits
from stages.testing.memory_server import open_memory_server
from stages.testing.memory_storage import MemoryStorage
from stages.testing.order_checks import WatchedApplication
from stages.testing.schedules import Schedule, ScheduleCount
from stages.testing.scripted_commits import ScriptedCommits
from tests.compiled import IS_COMPILED
from tests.stages.request_scripts import APPENDING, MILLISECOND, Ask, ScriptedApplication
from tests.stages.sabotage import replaced

INFINITY = float("inf")
WEDGED_SECONDS = 30.0
"""Virtual seconds; every script ends within a fraction of them unless it hangs."""
IN_TURNS_SHARE_MIN = 1 / 2
"""Minimum share of examples with a request in several turns, in tests of these."""
RESTS_SHARE_MIN = 1 / 4
"""Minimum share of examples with a completion in several turns, in tests of these."""
QUICK_EXAMPLES = 20
"""Examples of each property in `make test`; an argument of `make properties` sets another number."""
SABOTAGED_EXAMPLES = 2_000
LIMITS = ServerLimits(
    connection=ConnectionLimits(unsent_bytes_max=120, idle_seconds_max=INFINITY, slot_seconds_max=INFINITY),
    requests_max=9,
    bytes_max=150,
    processors=2,
)


@attrs.define
class Outcome:
    """The records of one run.

    Attributes:
        clients: the clients, with the responses they received.
        complaints: violations found while the run lasted.
        completions: results by connection and sequence number.
        requests: the requests of each connection in the order in which they started.
        identities: session of a request at its start, by connection and sequence number.
        is_wedged: whether a client still waited for a response at the end.
    """

    schedule: Schedule = attrs.field(factory=Schedule)
    clients: list = attrs.field(factory=list)
    complaints: list = attrs.field(factory=list)
    completions: Counter = attrs.field(factory=Counter)
    requests: defaultdict = attrs.field(factory=lambda: defaultdict(list))
    identities: dict = attrs.field(factory=dict)
    storage: MemoryStorage = None
    application: WatchedApplication = None
    executor: object = None
    is_wedged: bool = False
    failure: Exception | None = None
    server: object = None
    writes_at_fault: int | None = None


def observed_order(outcome, server_of, order=ResponseOrder):
    """Return a response order that checks at each opening that no bound forbids it, independently of the mute."""
    application = outcome.application.application

    class Observed(order):
        __slots__ = ()

        def open(self, request):
            connection, server = request.connection, server_of()
            facts = {
                "in flight": len(self) < server.mode.in_flight_max,
                "throttled": trio.current_time() >= application.throttled_until.get(connection.index, 0.0),
                "unsent": connection.unsent_bytes < LIMITS.connection.unsent_bytes_max
                or connection._is_marked,  # released in this turn, before the flush
                "queued bytes": server.channel.bytes_held < LIMITS.bytes_max,
            }
            outcome.complaints += [f"{request!r} was read: {name}" for name, holds in facts.items() if not holds]
            super().open(request)

        def complete(self, request, result):
            outcome.completions[request.connection.index, request.sequence] += 1
            outcome.schedule.note("complete", request.connection.index, request.sequence)
            ask = Ask.decode(request.frame)
            if outcome.identities.get((ask.connection, ask.place)) != request.connection.session:
                outcome.complaints.append(f"{request!r} was in flight while the identity changed")
            return super().complete(request, result)

    return Observed


def run_script(
    script,
    mode,
    *,
    order=ResponseOrder,
    executor=None,
    during=None,
    sabotage=nullcontext,
    open_session=lambda outcome: None,
):
    """Run `script` to its end; `during(server, outcome)` runs beside the clients, `sabotage()` around everything.

    `open_session(outcome)` opens the sessions of connections. `executor` runs the commits; by default the one that the
    script has drawn.
    """
    if executor is None:
        executor = DrawnCommits if script.has_threads else ScriptedCommits
    clock = MockClock(autojump_threshold=0)
    with (
        sabotage(),
        replaced(trio.to_thread, "run_sync", _run_sync),
        replaced(unfinished, "time", SimpleNamespace(sleep=lambda _: None)),  # no thread waits for Python's lock
        _commits_timed_by(clock),
    ):
        return trio.run(_run, script, mode, order, executor, during, open_session, clock=clock)


def _commits_timed_by(clock):
    """Let virtual time decide when commits overlap; compiled modules read the machine's clock."""
    if IS_COMPILED:
        return nullcontext()
    return replaced(committer, "now_ns", lambda: int(clock.current_time() * 1e9))


async def _run_sync(work, *arguments, **_):
    """Replace `trio.to_thread.run_sync`, without a thread, which a mock clock would not see."""
    await trio.sleep(MILLISECOND)
    return work(*arguments)


async def _run(script, mode, order, executor, during, open_session):
    outcome = Outcome()
    outcome.storage = MemoryStorage(key_of=lambda entry: entry[:2], size_of=lambda entry: 1)
    outcome.application = WatchedApplication(ScriptedApplication(), outcome.schedule)
    outcome.executor = executor([delay * MILLISECOND for delay in script.commit_delays], outcome.schedule)
    async with open_memory_server(
        mode,
        _Keeping(outcome),
        storage=outcome.storage,
        executor=outcome.executor,
        limits=LIMITS,
        commits_in_flight=script.commits_in_flight,
        response_order=observed_order(outcome, lambda: outcome.server, order),
    ) as memory:
        outcome.server = memory.server
        with trio.move_on_after(WEDGED_SECONDS) as patience:
            async with trio.open_nursery() as nursery:
                if during is not None:
                    nursery.start_soon(during, memory.server, outcome)
                for index, client_script in enumerate(script.clients):
                    client = await memory.connect(
                        peer=str(index),
                        capacity_bytes=100,
                        receive_sizes=client_script.receive_sizes,
                        send_sizes=client_script.send_sizes,
                        open_session=open_session(outcome),
                    )
                    outcome.clients.append(client)
                    nursery.start_soon(_send, client, client_script)
                    nursery.start_soon(_receive, client, outcome)
        outcome.is_wedged = patience.cancelled_caught
    outcome.failure = memory.failure
    return outcome


class _Keeping:
    def __init__(self, outcome):
        self.outcome = outcome

    def handle(self, request):
        self.outcome.requests[request.connection.index].append(request)
        ask = Ask.decode(request.frame)
        self.outcome.identities[ask.connection, ask.place] = request.connection.session
        if request.connection.index in self.outcome.application.application.unfinished:
            self.outcome.complaints.append(f"{request!r} was started while an earlier one is unfinished")
        if not request.connection.unsent.has_room(LIMITS.connection.unsent_bytes_max):
            self.outcome.complaints.append(f"{request!r} was started while its client took nothing")
        return self.outcome.application.handle(request)

    def failed(self, request, error):
        return self.outcome.application.failed(request, error)

    def connection_closed(self, session):
        self.outcome.application.connection_closed(session)


async def _send(client, script):
    asks = list(script.asks)
    for burst in itertools.cycle(script.bursts):
        if not asks or client.is_closed_by_server:
            break
        client.send(*(ask.encode() for ask in asks[:burst]))
        del asks[:burst]
        await trio.sleep(script.pause * MILLISECOND)
    client.half_close()


async def _receive(client, outcome):
    try:
        while True:
            response = await client.receive()
            kind, payload = response.split(b" ", 1)
            ask = Ask.decode(payload)
            if kind == b"answer" and ask.action in APPENDING and ask.entry not in outcome.storage.durable:
                outcome.complaints.append(f"{ask} was acknowledged and is not durable")
    except (trio.EndOfChannel, trio.BrokenResourceError):
        pass


def is_long():
    return settings.get_current_profile_name() == "long"


def holds(name, strategy, check, *, in_turns_share_min=0.0, rests_share_min=0.0):
    """Run `check(script)` on drawn scripts and schedules; print and check the number of distinct schedules.

    If a minimum share is given, do the same for scripts whose requests or completions took several turns.
    """
    count = ScheduleCount(name)
    in_turns = rests = 0

    @settings(max_examples=settings().max_examples if is_long() else QUICK_EXAMPLES)
    @given(script=strategy, randomness=st.random_module())
    def examples(script, randomness):
        nonlocal in_turns, rests
        outcome = check(script)
        count.add(outcome.schedule)
        if in_turns_share_min:
            in_turns += bool(outcome.application.application.in_turns)
        if rests_share_min:
            rests += bool(outcome.executor.rests)

    examples()
    print(f"\n{count}, {in_turns} with requests in several turns, {rests} with commits in several")
    count.check()
    assert in_turns >= in_turns_share_min * count.examples
    assert rests >= rests_share_min * count.examples


def fails(strategy, check):
    """Check that `check(script)` finds its sabotage; otherwise the property may be blind."""

    @settings(max_examples=SABOTAGED_EXAMPLES, database=None, phases=[Phase.generate], report_multiple_bugs=False)
    @given(script=strategy, randomness=st.random_module())
    def examples(script, randomness):
        check(script)

    with pytest.raises(AssertionError):
        examples()
