"""The flush policy: commits that wait for a sync, and deadlines of the others."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.log.journal.flush_policy import FlushPolicy
from pipeline_broker.log.segments.policies import NEVER, FlushRules, LogPolicies


def log_of(rules, key=b"a"):
    return SimpleNamespace(entry_key=key, policies=LogPolicies(flush=rules))


def entry(log, records=1):
    return SimpleNamespace(log=log, base_offset=0, last_offset=records - 1)


class Bench:
    def __init__(self, flush, *rules):
        self.wanted = []
        self.policy = FlushPolicy(flush, lambda: self.wanted.append(self.policy.sync_within_ms))
        self.logs = [log_of(each, str(number).encode()) for number, each in enumerate(rules)]
        for number, each in enumerate(rules):
            self.policy.topic_changed(str(number), each)

    def commit(self, *records):
        """Commit `count` records to each of the logs; return whether they wait for a sync."""
        entries = [entry(log, count) for log, count in zip(self.logs, records, strict=True) if count]
        is_synced = self.policy.must_sync(entries)
        self.policy.written(entries, is_synced=is_synced)
        return is_synced


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
    bench.policy.all_synced()
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
