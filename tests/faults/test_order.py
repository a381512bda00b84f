"""The invariants of docs/evidence/invariants.md while rules delay, pause, refuse or drop requests.

Drawn: the requests of several clients, the rules, when pauses are released, the times of commits, the schedule. Every
answer that comes is the one due; requests start, and logs grow, in the order of each connection; a request that was
refused is not in the log and one that was handled is; both modes give the same answers and logs to the same requests
where the rules are deterministic and met by one connection.
"""

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from pipeline_broker.base.error_code import ErrorCode
from stages.request_channel import RequestQueue
from stages.testing.order_checks import OrderViolationError, WatchedApplication, watched_response_order
from stages.testing.schedules import Schedule, ScheduleCount
from stages.testing.scripted_commits import ScriptedCommits
from tests.faults.in_memory import error_of, fetch, list_groups, produce, serving

CODE = ErrorCode.NOT_LEADER_OR_FOLLOWER
EXAMPLES = 40
APIS = st.sampled_from(["Produce", "Fetch", "ListGroups"])
MAKERS = {
    "error": lambda maker: maker.error(CODE.name),
    "error after": lambda maker: maker.error(CODE.name, "after"),
    "delay": lambda maker: maker.delay(0.5),
    "short delay": lambda maker: maker.delay(0.002),
    "throttle": lambda maker: maker.throttle(300),
    "queue": lambda maker: maker.pause("queue"),
    "response order": lambda maker: maker.pause("response_order"),
}
CHOICES = st.one_of(
    st.builds(dict, nth=st.integers(1, 5)),
    st.builds(dict, every=st.integers(1, 3)),
    st.builds(dict, p=st.sampled_from([0.3, 0.7]), seed=st.integers(0, 99), times=st.integers(1, 4)),
)
RULES = st.lists(st.tuples(APIS, CHOICES, st.sampled_from(sorted(MAKERS))), max_size=4)
ASKS = st.lists(st.sampled_from(["produce", "fetch", "groups"]), min_size=2, max_size=6)
RELEASE_SECONDS = 0.1
STUCK_SECONDS = 1_000_000
"""Of the test's clock, of which an idle broker passes 30,000 in a real second; a real thread ends the committer."""


@attrs.define
class Told:
    """The responses to the clients, and the contents of the logs."""

    codes: list
    logs: list


async def releasing(scene):
    while True:
        await trio.sleep(RELEASE_SECONDS)
        for rule in list(scene.faults.rules):
            scene.faults.release(rule.number)


async def ask_all(scene, number, asks, codes):
    client = await scene.connect()
    client.send(*[message_of(ask, number, place) for place, ask in enumerate(asks)])
    for ask in asks:
        answer = await client.receive()
        is_told_apart = getattr(answer, "error_code", 0) == 0 and ask != "groups" and answer.responses
        codes.append(error_of(answer) if is_told_apart else answer.error_code)


def message_of(ask, number, place):
    if ask == "produce":
        return produce(b"%d %d" % (number, place), partition=number % 2)
    return fetch(partition=number % 2, wait_ms=5) if ask == "fetch" else list_groups()


async def play(mode, rules, clients, delays, schedule):
    watched = []

    def watch(application):
        watched.append(Started(application, schedule))
        return watched[0]

    observed = {} if schedule is None else {"response_order": watched_response_order(schedule)}
    async with serving(mode, wrap=watch, executor=ScriptedCommits(delays, schedule), **observed) as scene:
        for api, choice, effect in rules:
            MAKERS[effect](scene.faults.when(api, **choice))
        told = [[] for _ in clients]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(releasing, scene)
            async with trio.open_nursery() as asking:
                for number, asks in enumerate(clients):
                    asking.start_soon(ask_all, scene, number, asks, told[number])
            nursery.cancel_scope.cancel()
        watched[0].check_start_order()
        logs = [scene.values(partition=number) for number in range(2)]
        check_logs(clients, told, logs, rules)
        return Told(told, logs)


class Started(WatchedApplication):
    """Records the requests that start, unless they hold the queue."""

    def handle(self, request):
        result = self.application.handle(request)
        self.starts[request.connection.index].append(request.sequence)
        if self._schedule is not None:
            self._schedule.note("start", request.connection.index, request.sequence)
        return result


def check_logs(clients, told, logs, rules):
    refusing = any(effect == "error" for _, _, effect in rules)
    failing_after = any(effect == "error after" for _, _, effect in rules)
    for number, asks in enumerate(clients):
        places = [place for place, ask in enumerate(asks) if ask == "produce"]
        own = [int(value.split()[1]) for value in logs[number % 2] if value.split()[0] == b"%d" % number]
        assert own == sorted(own), "the log is not in the order of the connection"
        acknowledged = [place for place in places if told[number][place] == 0]
        assert set(acknowledged) <= set(own), "an acknowledged batch is not in the log"
        if not failing_after:
            assert own == acknowledged, "a refused batch is in the log"
        if not refusing:
            assert own == places, "a batch that was handled is not in the log"


def run_example(*arguments):
    async def limited():
        with trio.fail_after(STUCK_SECONDS):
            return await play(*arguments)

    return trio.run(limited, clock=MockClock(autojump_threshold=0))


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_order_and_durability_hold_with_rules(mode):
    count = ScheduleCount(f"fault rules {mode}")

    @settings(max_examples=EXAMPLES)
    @given(
        RULES,
        st.lists(ASKS, min_size=2, max_size=4),
        st.lists(st.sampled_from([0.0, 0.001, 0.01]), min_size=1, max_size=3),
        st.random_module(),
    )
    def example(rules, clients, delays, _randomness):
        schedule = Schedule()
        run_example(mode, rules, clients, delays, schedule)
        count.add(schedule)

    example()
    count.check()


@settings(max_examples=EXAMPLES // 2)
@given(rules=RULES, asks=ASKS, schedule=st.random_module())
def test_both_modes_answer_one_client_alike(rules, asks, schedule):
    classic, pipelined = (run_example(mode, rules, [asks], [0.0], None) for mode in ("classic", "pipelined"))
    assert (classic.codes, classic.logs) == (pipelined.codes, pipelined.logs)


def test_the_property_fails_if_a_held_queue_drops_its_request(monkeypatch):
    def resume_without(queue, request, callback):
        queue.requests.append(request)

    monkeypatch.setattr(RequestQueue, "hold", resume_without)
    rules = [("Produce", {"nth": 1}, "queue")]
    with pytest.raises(ExceptionGroup) as caught:
        run_example("pipelined", rules, [["produce", "produce", "produce"]], [0.0], None)
    assert caught.group_contains(OrderViolationError)
