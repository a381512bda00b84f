"""Held responses and queues continue exactly once: by time, release, removal of a rule, or the broker's end."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipeline_broker.faults.held import Held
from tests.crashes.lengths import examples

RULES = st.integers(1, 4)


class Connection:
    def __init__(self, session):
        self.session = session


class Request:
    """A request that counts its completions."""

    def __init__(self, session):
        self.connection = Connection(session)
        self.results = []

    def complete(self, result):
        self.results.append(result)


class Model:
    def __init__(self, request, due_ms, delays, pauses):
        self.request, self.due_ms, self.delays, self.pauses = request, due_ms, delays, set(pauses)
        self.is_forgotten = False

    @property
    def waits(self):
        return not self.is_forgotten and not self.request.results


class HeldMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.now_ms = 0
        self.wakes = 0
        self.held = Held(self.wake)
        self.answers = []
        self.queues = []  # [rule, number of resumptions]

    def wake(self):
        self.wakes += 1

    @rule(
        delay_ms=st.integers(0, 5), delays=st.sets(RULES, max_size=2), pauses=st.sets(RULES, max_size=2), session=RULES
    )
    def hold(self, delay_ms, delays, pauses, session):
        request = Request(session)
        earliest, wakes = self.held.next_deadline_ms(), self.wakes
        self.held.hold_answer(request, "result", self.now_ms + delay_ms, delays, pauses)
        assert self.wakes == wakes + (earliest is None or self.now_ms + delay_ms < earliest)
        self.answers.append(Model(request, self.now_ms + delay_ms, delays, pauses))

    @rule(number=RULES)
    def hold_queue(self, number):
        queue = [number, 0]
        self.queues.append(queue)
        self.held.hold_queue(number, lambda: queue.__setitem__(1, queue[1] + 1))

    @rule(later_ms=st.integers(0, 4))
    def advance(self, later_ms):
        self.now_ms += later_ms
        self.held.advance(self.now_ms)
        self.expect()

    @rule(number=RULES)
    def release(self, number):
        expected = any(answer.waits and number in answer.pauses for answer in self.answers)
        expected = expected or any(queue == [number, 0] for queue in self.queues)
        assert self.held.release(number, self.now_ms) == expected
        self.released(number)

    @rule(number=RULES)
    def rule_removed(self, number):
        self.held.rule_removed(number, self.now_ms)
        for answer in self.answers:
            if number in answer.delays:
                answer.due_ms = min(answer.due_ms, self.now_ms)
        self.released(number)

    def released(self, number):
        for answer in self.answers:
            answer.pauses.discard(number)
        assert all(count == 1 for each, count in self.queues if each == number)
        self.expect()

    @rule(session=RULES)
    def connection_closed(self, session):
        self.held.connection_closed(session)
        for answer in self.answers:
            if answer.waits and answer.request.connection.session == session:
                answer.is_forgotten = True

    @rule()
    def end(self):
        self.held.end()
        assert all(not answer.waits for answer in self.answers)
        assert len(self.held) == 0

    def expect(self):
        """Assert that no response is overdue."""
        assert not [each for each in self.answers if each.waits and not each.pauses and each.due_ms <= self.now_ms]

    @invariant()
    def nothing_continues_twice_or_too_early(self):
        for answer in self.answers:
            assert len(answer.request.results) <= 1
            assert not (answer.is_forgotten and answer.request.results)
        assert all(count <= 1 for _, count in self.queues)

    @invariant()
    def the_next_deadline_is_the_earliest_without_pauses(self):
        due = [each.due_ms for each in self.answers if each.waits and not each.pauses]
        assert self.held.next_deadline_ms() == min(due, default=None)


HeldMachine.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=20)
TestHeld = HeldMachine.TestCase
