"""Parked fetches, compared with a model that recounts everything each time."""

from __future__ import annotations

import functools

import attrs
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from pipeline_broker.state.parked_fetches import ParkedFetches, Readable
from tests.crashes.lengths import examples

PARTITIONS = st.integers(0, 3)
SIZES = st.integers(0, 100)


@attrs.define
class Model:
    bytes_min: int
    deadline_ms: int
    limits: dict[int, int]
    found: dict[int, int]
    is_committed: bool = False

    @property
    def is_ready(self) -> bool:
        return sum(min(size, self.limits[partition]) for partition, size in self.found.items()) >= self.bytes_min


class Lives(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.fetches: ParkedFetches[int, int] = ParkedFetches()
        self.model: dict[int, Model] = {}
        self.now_ms = 0
        self.tokens = 0
        self.expired = 0
        self.total = dict.fromkeys(range(4), 0)
        self.decided = dict.fromkeys(range(4), 0)

    @rule(
        wanted=st.dictionaries(PARTITIONS, st.tuples(SIZES, SIZES), max_size=4),
        bytes_min=SIZES,
        wait_ms=st.integers(0, 50),
        is_committed=st.booleans(),
    )
    def park(self, wanted, bytes_min, wait_ms, is_committed) -> None:
        self.tokens += 1
        limits = {partition: limit for partition, (_, limit) in wanted.items()}
        found = {partition: size for partition, (size, _) in wanted.items()}
        before = dict(self.decided)

        def measure(partition: int) -> int:
            return wanted[partition][0] + self.decided[partition] - before[partition]

        model = Model(bytes_min, self.now_ms + wait_ms, limits, found, is_committed)
        partitions = {
            partition: Readable(*pair, functools.partial(measure, partition) if is_committed else None)
            for partition, pair in wanted.items()
        }
        parked = self.fetches.park(self.tokens, partitions, bytes_min, self.now_ms + wait_ms)
        assert parked == (not model.is_ready)
        if parked:
            self.model[self.tokens] = model

    @rule(partition=PARTITIONS, size=SIZES, decides=st.booleans())
    def notify(self, partition, size, decides) -> None:
        """Readers of committed records see added bytes only once their transaction ends."""
        self.total[partition] += size
        newly_decided = self.total[partition] - self.decided[partition] if decides else 0
        self.decided[partition] += newly_decided
        for model in self.model.values():
            if partition in model.found:
                model.found[partition] += newly_decided if model.is_committed else size
        expected = [token for token, model in self.model.items() if model.is_ready]
        assert self.fetches.notify(partition, size) == expected
        self.gone(expected)

    @rule(partition=PARTITIONS)
    def wake(self, partition) -> None:
        expected = [token for token, model in self.model.items() if partition in model.found]
        assert self.fetches.wake(partition) == expected
        self.gone(expected)

    @rule(delay_ms=st.integers(0, 60))
    def advance(self, delay_ms) -> None:
        self.now_ms += delay_ms
        due = [token for token, model in self.model.items() if model.deadline_ms <= self.now_ms]
        found = self.fetches.advance(self.now_ms)
        assert sorted(found) == due
        self.expired += len(due)
        assert [self.model[token].deadline_ms for token in found] == sorted(self.model[t].deadline_ms for t in due)
        self.gone(due)

    @rule(token=st.integers(1, 10))
    def cancel(self, token) -> None:
        assert self.fetches.cancel(token) == (token in self.model)
        self.model.pop(token, None)

    def gone(self, tokens) -> None:
        for token in tokens:
            del self.model[token]

    @invariant()
    def nothing_is_left_behind(self) -> None:
        assert len(self.fetches) == len(self.model)
        deadlines = [model.deadline_ms for model in self.model.values()]
        assert self.fetches.next_deadline_ms() == min(deadlines, default=None)
        watched = [key for model in self.model.values() for key in model.found]
        assert {key for key in range(4) if self.fetches.is_watched(key)} == set(watched)
        assert (self.fetches.watched, self.fetches.expired) == (len(watched), self.expired)
        assert all(set(self.fetches.partitions_of(token)) == set(model.found) for token, model in self.model.items())


TestParkedFetches = Lives.TestCase
TestParkedFetches.settings = hypothesis_settings(max_examples=examples(80), stateful_step_count=25, deadline=None)


def test_a_partition_is_watched_while_a_fetch_waits_for_it() -> None:
    fetches: ParkedFetches[int, int] = ParkedFetches()
    assert not fetches.is_watched(0)
    fetches.park(1, {0: Readable(0, 100)}, 1, 1_000)
    assert fetches.is_watched(0)
    assert not fetches.is_watched(1)
    fetches.notify(0, 1)
    assert not fetches.is_watched(0)
