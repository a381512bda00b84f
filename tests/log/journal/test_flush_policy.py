"""The flush policy: commits that wait for a sync, and deadlines of the others."""

from collections import Counter
from types import SimpleNamespace
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from pipeline_broker.log.journal.flush_policy import FlushPolicy
from pipeline_broker.log.segments.policies import NEVER, FlushRules, LogPolicies
from tests.crashes.lengths import examples


def log_of(rules, key=b"a"):
    return SimpleNamespace(entry_key=key, policies=LogPolicies(flush=rules))


def entry(log, records=1):
    return SimpleNamespace(log=log, base_offset=0, last_offset=records - 1)


class Bench:
    def __init__(self, flush, *rules):
        self.wanted = []
        self.policy = FlushPolicy(flush, lambda: self.wanted.append(self.policy.sync_within_ms))
        self.lsn = 0
        self.logs = [log_of(each, str(number).encode()) for number, each in enumerate(rules)]
        for number, each in enumerate(rules):
            self.policy.topic_changed(str(number), each)

    def write(self, *records):
        """Write `count` records to each of the logs; return the end LSN of the sync that begins, or None."""
        entries = [entry(log, count) for log, count in zip(self.logs, records, strict=True) if count]
        is_synced = self.policy.must_sync(entries)
        self.lsn += len(entries)
        if not is_synced:
            self.policy.written(entries)
            return None
        self.policy.sync_begins(self.lsn)
        return self.lsn

    def commit(self, *records):
        """Write and sync `count` records to each of the logs; return whether they wait for the sync."""
        end_lsn = self.write(*records)
        if end_lsn is not None:
            self.policy.synced(end_lsn)
        return end_lsn is not None


@pytest.mark.parametrize(("flush", "is_synced"), [("always", True), ("os", False)])
def test_a_log_without_rules_does_as_the_journal(flush, is_synced):
    bench = Bench(flush, None)
    assert bench.policy.may_sync is is_synced
    assert [bench.commit(1) for _ in range(3)] == [is_synced] * 3


@pytest.mark.parametrize(
    ("flush", "rules", "is_synced"),
    [
        ("always", None, True),
        ("os", None, False),
        ("os", FlushRules(ms=5), True),
        ("os", FlushRules(messages=3), True),
        ("os", FlushRules(messages=1), True),
    ],
)
def test_a_startup_makes_records_durable_if_any_topic_counts_or_has_a_deadline(flush, rules, is_synced):
    assert Bench(flush, rules).policy.must_sync_recovered is is_synced


def test_a_log_is_synced_with_its_nth_record():
    bench = Bench("os", FlushRules(messages=3))
    assert [bench.commit(1) for _ in range(7)] == [False, False, True, False, False, True, False]


def test_a_batch_counts_as_many_records_as_it_has():
    bench = Bench("os", FlushRules(messages=10))
    assert [bench.commit(count) for count in (9, 1, 4, 5, 30, 9)] == [False, True, False, False, True, False]


def test_the_sync_of_one_log_is_that_of_all():
    bench = Bench("os", FlushRules(messages=1), FlushRules(messages=3))
    assert [bench.commit(*counts) for counts in ((0, 2), (1, 0), (0, 2), (0, 1))] == [False, True, False, True]


def test_several_batches_of_a_log_in_one_commit_count_together():
    bench = Bench("os", FlushRules(messages=3))
    entries = [entry(bench.logs[0]) for _ in range(3)]
    assert bench.policy.must_sync(entries)
    assert not bench.policy.must_sync(entries[:2])


def test_the_decision_is_the_same_after_a_failed_write():
    bench = Bench("os", FlushRules(messages=2))
    entries = [entry(bench.logs[0])]
    assert [bench.policy.must_sync(entries) for _ in range(3)] == [False] * 3


def test_the_shortest_deadline_counts_and_is_reported_once():
    bench = Bench("os", FlushRules(ms=500), FlushRules(ms=100), FlushRules())
    for counts in ((0, 0, 1), (1, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 1)):
        assert not bench.commit(*counts)
    assert bench.wanted == [500, 100]
    bench.policy.sync_begins(bench.lsn)
    assert bench.policy.sync_within_ms is None
    bench.commit(1, 0, 0)
    assert bench.wanted == [500, 100, 500]


def test_a_sync_clears_the_deadline():
    bench = Bench("os", FlushRules(messages=2, ms=500))
    bench.commit(1)
    assert bench.policy.sync_within_ms == 500
    assert bench.commit(1)
    assert bench.policy.sync_within_ms is None


def test_topics_with_weaker_rules_are_listed_until_they_are_deleted():
    bench = Bench("always", FlushRules(messages=1), FlushRules(messages=5), FlushRules(messages=1, ms=7), None)
    assert bench.policy.weaker == {"1": FlushRules(messages=5)}
    bench.policy.topic_changed("1", FlushRules(messages=1))
    assert not bench.policy.weaker
    bench.policy.topic_changed("1", FlushRules(messages=6))
    bench.policy.topic_changed("1", None)
    assert not bench.policy.weaker
    assert Bench("os", FlushRules(messages=5)).policy.weaker == {}


rules = st.builds(FlushRules, messages=st.sampled_from([1, 2, 10, NEVER]), ms=st.sampled_from([0, 5, NEVER]))


@given(rules, rules, rules)
def test_weaker_is_an_order(one, two, three):
    assert not one.is_weaker_than(one)
    if not two.is_weaker_than(one) and not three.is_weaker_than(two):
        assert not three.is_weaker_than(one)
    assert not FlushRules(messages=1).is_weaker_than(one)
    assert one.messages == 1 or one.is_weaker_than(FlushRules(messages=1))


@given(st.sampled_from(["always", "os"]), st.lists(st.tuples(rules, st.integers(1, 4)), min_size=1, max_size=30))
def test_no_log_reaches_its_limit_of_unsynced_records(flush, commits):
    kinds = list(dict.fromkeys(rules for rules, _ in commits))
    bench = Bench(flush, *kinds)
    unsynced = dict.fromkeys(kinds, 0)
    for each, count in commits:
        unsynced[each] += count
        is_synced = bench.commit(*[count if kind == each else 0 for kind in kinds])
        assert is_synced is (unsynced[each] >= each.messages)
        if is_synced:
            unsynced = dict.fromkeys(kinds, 0)
        timed = [kind.ms for kind, records in unsynced.items() if records and kind.ms < NEVER]
        assert bench.policy.sync_within_ms == min(timed, default=None)


class SyncedLater(RuleBasedStateMachine):
    """Syncs that begin with a commit or in the background and end in any order."""

    MESSAGES = (3, 5)
    seen: ClassVar = Counter()

    def __init__(self):
        super().__init__()
        self.bench = Bench("os", *(FlushRules(messages=messages) for messages in self.MESSAGES))
        self.acknowledged = []  # (end LSN, log) of each record that no sync covers for certain
        self.syncs = []

    @rule(log=st.integers(0, 1), count=st.integers(1, 4))
    def write(self, log, count):
        end_lsn = self.bench.write(*(count if each == log else 0 for each in range(2)))
        if end_lsn is None:
            self.acknowledged += [(self.bench.lsn, log)] * count
            self.seen["beside a sync"] += bool(self.syncs)
        else:
            self.syncs.append(end_lsn)
            self.seen["syncs at once"] += len(self.syncs) > 1

    @rule()
    def begin_in_background(self):
        self.bench.policy.sync_begins(self.bench.lsn)
        self.syncs.append(self.bench.lsn)

    @precondition(lambda self: self.syncs)
    @rule(data=st.data())
    def end(self, data):
        end_lsn = data.draw(st.sampled_from(self.syncs))
        self.syncs.remove(end_lsn)
        self.bench.policy.synced(end_lsn)
        self.acknowledged = [(lsn, log) for lsn, log in self.acknowledged if lsn > end_lsn]

    @invariant()
    def a_power_cut_takes_fewer_than_the_limit(self):
        taken = Counter(log for _, log in self.acknowledged)
        for log, messages in enumerate(self.MESSAGES):
            assert taken[log] < messages
            self.seen["one more would be too many"] += taken[log] == messages - 1 and bool(self.syncs)


def test_records_count_until_a_sync_that_covers_them_has_ended():
    class Machine(SyncedLater):
        seen: ClassVar = Counter()

    run_state_machine_as_test(
        Machine, settings=settings(max_examples=examples(60), stateful_step_count=30, deadline=None)
    )
    assert set(Machine.seen) == {"beside a sync", "syncs at once", "one more would be too many"}


def test_a_log_that_no_sync_runs_for_is_not_counted_with_others():
    bench = Bench("os", FlushRules(messages=3), FlushRules(messages=3))
    assert bench.write(2, 0) is None
    bench.policy.sync_begins(bench.lsn)
    assert bench.write(0, 2) is None
    assert bench.write(1, 0) is not None
