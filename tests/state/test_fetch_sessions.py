"""Fetch sessions: epochs, listed partitions, evictions."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.fetch_sessions import FetchSessions, PartitionAnswer, fetch_sessions_of, next_epoch
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from tests.crashes.lengths import examples

KEYS = st.sampled_from("abcd")


def sessions(slots=1_000, **bounds):
    return FetchSessions(Random(1), slots=slots, **bounds)


def begin(made, session_id, epoch, partitions=(), forgotten=(), *, ids=True, now_ms=0):
    requests = partitions if isinstance(partitions, dict) else dict.fromkeys(partitions, "request")
    return made.begin(session_id, epoch, requests, forgotten, uses_topic_ids=ids, now_ms=now_ms)


def quiet(context):
    return [PartitionAnswer(key, 0, 0) for key in context.partitions]


def opened(made, partitions, now_ms=0, *, ids=True):
    context = begin(made, 0, 0, partitions, ids=ids, now_ms=now_ms)
    return made.answer(context, quiet(context), now_ms).session_id


@pytest.mark.parametrize("ids", [True, False])
def test_every_fetch_of_a_session_names_topics_like_its_first(ids: bool) -> None:
    made = sessions()
    first = begin(made, 0, 0, "a", ids=ids)
    session_id = made.answer(first, quiet(first), 0).session_id

    assert [first.uses_topic_ids, begin(made, session_id, 1, ids=ids).uses_topic_ids] == [ids, ids]


def test_epochs_wrap_past_zero() -> None:
    assert [next_epoch(epoch) for epoch in (0, 1, 2**31 - 1, -1)] == [1, 2, 1, -1]


def test_errors_of_an_incremental_fetch() -> None:
    """Unknown session 70, wrong epoch 71, inconsistent use of topic ids 106."""
    made = sessions()
    session_id = opened(made, "ab")
    assert begin(made, session_id + 1, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert begin(made, session_id, 2).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert begin(made, session_id, 1, ids=False).error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    by_name = opened(made, "ab", ids=False)
    assert begin(made, by_name, 1, ids=True).error is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
    context = begin(made, session_id, 1)
    assert (context.error, list(context.partitions)) == (ErrorCode.NONE, ["a", "b"])
    answer = made.answer(begin(made, session_id, 7), [], 0)
    assert (answer.error, answer.session_id) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)


@pytest.mark.parametrize("epoch", [0, -1])
def test_full_fetch_closes_the_session_that_it_names(epoch) -> None:
    """Epoch 0 opens another session, epoch -1 does not."""
    made = sessions()
    session_id = opened(made, "ab")
    context = begin(made, session_id, epoch, "ab")
    answer = made.answer(context, quiet(context), 0)
    assert answer.listed == {"a", "b"}
    assert (answer.session_id != 0) == (epoch == 0)
    assert len(made) == (epoch == 0)
    assert begin(made, session_id, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_partitions_with_records_move_to_the_end() -> None:
    """Otherwise the first partitions would use up the limit of the fetch every time."""
    made = sessions()
    session_id = opened(made, "abc")
    found = [PartitionAnswer("a", 1, 0, has_records=True), PartitionAnswer("b", 0, 0), PartitionAnswer("c", 1, 0)]
    made.answer(begin(made, session_id, 1), found, 0)
    assert list(begin(made, session_id, 2).partitions) == ["b", "c", "a"]


def test_emptied_session_is_dropped() -> None:
    made = sessions()
    session_id = opened(made, "ab")
    context = begin(made, session_id, 1, forgotten="ab")
    assert (context.error, context.session_id, len(made)) == (ErrorCode.NONE, 0, 0)


def test_answer_to_an_outdated_fetch() -> None:
    """Of two fetches in flight, the one with the earlier epoch gets an error and updates no partition."""
    made = sessions()
    session_id = opened(made, "a")
    first = begin(made, session_id, 1)
    second = begin(made, session_id, 2)
    news = [PartitionAnswer("a", 5, 0, has_records=True)]
    assert made.answer(first, news, 0).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert made.answer(second, news, 0).listed == {"a"}


def test_parked_fetch_of_an_emptied_session() -> None:
    """The fetch ends with an error instead of a crash."""
    made = sessions()
    session_id = opened(made, "a")
    parked = begin(made, session_id, 1)
    begin(made, session_id, 2, forgotten="a")
    assert made.answer(parked, quiet(parked), 0).error is ErrorCode.INVALID_FETCH_SESSION_EPOCH


def test_full_cache_evicts_stale_or_old_smaller_sessions() -> None:
    """Stale sessions (unused for more than 120 s) come first, then an old session that is not larger."""
    made = sessions(slots=2)
    small, large = opened(made, "a"), opened(made, "abc")
    assert opened(made, "ab", now_ms=1_000) == 0
    for epoch, now_ms in enumerate((60_000, 120_001), 1):
        begin(made, small, epoch, now_ms=now_ms)
        begin(made, large, epoch, now_ms=now_ms)
    context = begin(made, 0, 0, [], now_ms=120_002)
    assert made.answer(context, [], 120_002).session_id == 0
    newer = opened(made, "ab", now_ms=120_002)
    assert newer != 0
    assert begin(made, small, 3).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    begin(made, large, 3, now_ms=240_002)
    assert opened(made, "a", now_ms=240_003) != 0
    assert begin(made, newer, 1).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert len(made) == 2


def test_a_session_beyond_the_limit_of_partitions_is_not_opened() -> None:
    """The client continues with full fetches (KIP-227)."""
    made = sessions(partitions_max=5)
    assert opened(made, "abc") != 0
    assert opened(made, "abc") == 0
    assert opened(made, "ab") != 0
    assert made.partitions == 5


def test_a_lack_of_partitions_evicts_as_few_sessions_as_possible() -> None:
    """A stale session, and an old one that is not larger; none if that would not suffice."""
    made = sessions(partitions_max=6)
    small, large = opened(made, "a"), opened(made, "abcd")
    for epoch, now_ms in enumerate((60_000, 120_001), 1):
        begin(made, small, epoch, now_ms=now_ms)
        begin(made, large, epoch, now_ms=now_ms)
    assert opened(made, "abc", now_ms=120_002) == 0
    assert made.partitions == 5
    assert opened(made, "ab", now_ms=120_002) != 0
    assert begin(made, small, 3).error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert begin(made, large, 3, now_ms=120_003).error is ErrorCode.NONE
    assert made.partitions == 6


def test_a_session_that_grows_beyond_the_limit_is_closed() -> None:
    made = sessions(partitions_max=3)
    first, second = opened(made, "a"), opened(made, "a")
    assert begin(made, first, 1, "b").error is ErrorCode.NONE
    assert begin(made, first, 2, "ab", forgotten="b").error is ErrorCode.NONE
    assert made.partitions == 2
    assert begin(made, second, 1, "bcd").error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (len(made), made.partitions) == (1, 1)
    assert begin(made, first, 3, forgotten="a").session_id == 0
    assert made.partitions == 0


def test_a_growing_session_evicts_only_sessions_that_are_not_larger() -> None:
    made = sessions(slots=2, partitions_max=5)
    old, growing = opened(made, "abc"), opened(made, "x")
    for now_ms in (60_000, 120_000):
        assert begin(made, old, now_ms // 60_000, now_ms=now_ms).error is ErrorCode.NONE

    assert begin(made, growing, 1, "y", now_ms=120_001).error is ErrorCode.NONE
    assert (made.keys_of(old), made.keys_of(growing)) == (("a", "b", "c"), ("x", "y")), "it fits exactly"
    assert begin(made, growing, 2, "z", now_ms=120_001).error is ErrorCode.NONE
    assert (made.keys_of(old), made.keys_of(growing)) == ((), ("x", "y", "z"))
    assert (made.evicted, made.partitions, len(made)) == (1, 3, 1)


def test_the_least_recently_used_stale_session_is_evicted() -> None:
    made = sessions(slots=2)
    first, second = opened(made, "a"), opened(made, "b")
    begin(made, first, 1, now_ms=1)
    assert opened(made, "c", now_ms=120_000) == 0, "unused for that long is not stale yet"
    assert opened(made, "c", now_ms=120_002) != 0
    assert (made.keys_of(first), made.keys_of(second), made.evicted) == (("a",), (), 1)


def test_session_ids_are_positive_and_distinct() -> None:
    """Also if the random generator repeats one: otherwise a client would read in another one's session."""
    drawn = iter([7, 7, 2**31 - 1, 1])
    bounds = set()

    class Drawn(Random):
        def randrange(self, start: int, stop: int) -> int:
            bounds.add((start, stop - 1))
            return next(drawn)

    made = FetchSessions(Drawn())
    assert [opened(made, "a") for _ in range(3)] == [7, 2**31 - 1, 1]
    assert bounds == {(1, 2**31 - 1)}


def test_a_session_may_take_all_free_partitions_without_an_eviction() -> None:
    made = sessions(partitions_max=3)
    assert opened(made, "a") != 0
    assert opened(made, "bc", now_ms=500_000) != 0
    assert (len(made), made.evicted) == (2, 0)


def test_a_partition_with_must_list_is_listed_without_changes() -> None:
    made = sessions()
    session_id = opened(made, "ab")
    found = [PartitionAnswer("a", 0, 0, must_list=True), PartitionAnswer("b", 0, 0)]
    assert made.answer(begin(made, session_id, 1), found, 0).listed == {"a"}


def test_a_raised_log_start_is_listed_once() -> None:
    made = sessions()
    session_id = opened(made, "ab")
    found = [PartitionAnswer("a", 0, 3), PartitionAnswer("b", 0, 0)]
    assert made.answer(begin(made, session_id, 1), found, 0).listed == {"a"}
    assert made.answer(begin(made, session_id, 2), found, 0).listed == set()


def test_a_skipped_fetch_returns_its_error_and_loses_no_change() -> None:
    made = sessions()
    session_id = opened(made, "a")
    assert made.skip(begin(made, 0, 0, "a")) is ErrorCode.NONE, "of no session"
    assert made.skip(begin(made, session_id, 7)) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert made.skip(begin(made, session_id + 1, 1)) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    overtaken, latest = begin(made, session_id, 1), begin(made, session_id, 2)
    assert (overtaken.error, latest.error) == (ErrorCode.NONE, ErrorCode.NONE)
    assert made.skip(overtaken) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert made.skip(latest) is ErrorCode.NONE
    news = [PartitionAnswer("a", 5, 0)]
    assert made.answer(begin(made, session_id, 3), news, 0).listed == {"a"}


def test_one_of_two_candidates_is_evicted_if_that_suffices() -> None:
    made = sessions(partitions_max=4)
    first, second = opened(made, "ab"), opened(made, "cd")
    assert opened(made, "wx", now_ms=200_000) != 0
    assert (made.keys_of(first), made.keys_of(second), made.evicted) == ((), ("c", "d"), 1)


def test_no_session_is_evicted_if_that_cannot_suffice() -> None:
    made = sessions(partitions_max=4)
    stale, fresh = opened(made, "ab"), opened(made, "cd", now_ms=200_000)
    assert opened(made, "wxyz", now_ms=200_001) == 0
    assert (made.keys_of(stale), made.keys_of(fresh), made.evicted) == (("a", "b"), ("c", "d"), 0)
    assert opened(made, "wxyz", now_ms=400_000) != 0, "as large as all together may be"
    assert (len(made), made.partitions, made.evicted) == (1, 4, 2)


@pytest.mark.parametrize(("unknown", "is_kept"), [(1_000, True), (1_001, False)])
def test_a_session_of_unknown_partitions_is_not_opened(unknown, is_kept) -> None:
    made = sessions()
    context = begin(made, 0, 0, range(unknown + 1))
    found = [PartitionAnswer(key, 0, 0, has_error=key > 0, is_unknown=key > 0) for key in context.partitions]
    answer = made.answer(context, found, 0)
    assert (answer.session_id != 0) is is_kept
    assert len(answer.listed) == unknown + 1


def test_an_overlong_name_counts_more_than_once() -> None:
    made = fetch_sessions_of(BrokerConfig(pipeline_fetch_session_partitions=100), Random(1))
    assert opened(made, [("t" * 249, b"", 0)]) != 0
    assert made.partitions == 1
    assert opened(made, [("t" * 250, b"", 0)]) != 0
    assert made.partitions == 3
    assert opened(made, [("t" * 32_000, b"", 0)]) == 0


def test_all_sessions_together_take_less_than_50_megabytes() -> None:
    made = fetch_sessions_of(BrokerConfig(), Random(1))
    tracemalloc.start()
    try:
        for number in range(110):
            partitions = {
                (f"t-{number}", b"", index): FetchRequest.FetchPartition(partition=index) for index in range(1_000)
            }
            context = begin(made, 0, 0, partitions)
            found = [PartitionAnswer(key, 0, 0, has_error=True, is_unknown=True) for key in partitions]
            made.answer(context, found, 0)
        assert (len(made), made.partitions) == (100, 100_000)
        assert tracemalloc.get_traced_memory()[0] < 50_000_000
    finally:
        tracemalloc.stop()


class Lives(RuleBasedStateMachine):
    """A session, compared with a client that merges responses and a broker that remembers everything."""

    def __init__(self) -> None:
        super().__init__()
        self.made = sessions()
        self.session_id = 0
        self.epoch = 0
        self.order: list[str] = []
        self.requests: dict[str, int] = {}
        self.watermarks = dict.fromkeys("abcd", 0)
        self.known: dict[str, int | None] = {}
        self.request = 0

    @rule(key=KEYS)
    def produce(self, key) -> None:
        self.watermarks[key] += 1

    @rule(keys=st.lists(KEYS, unique=True, min_size=1))
    def open(self, keys) -> None:
        self.request += 1
        context = begin(self.made, self.session_id, 0, dict.fromkeys(keys, self.request))
        answer = self.made.answer(context, [PartitionAnswer(key, self.watermarks[key], 0) for key in keys], 0)
        assert answer.listed == set(keys)
        self.session_id, self.epoch = answer.session_id, 1
        self.order, self.requests = list(keys), dict.fromkeys(keys, self.request)
        self.known = {key: self.watermarks[key] for key in keys}
        assert len(self.made) == 1

    @precondition(lambda self: self.session_id)
    @rule(
        added=st.lists(KEYS, unique=True),
        forgotten=st.sets(KEYS),
        with_records=st.sets(KEYS),
        with_error=st.sets(KEYS),
    )
    def go_on(self, added, forgotten, with_records, with_error) -> None:
        self.request += 1
        context = begin(self.made, self.session_id, self.epoch, dict.fromkeys(added, self.request), forgotten)
        for key in added:
            if key not in self.requests:
                self.order.append(key)
            self.requests[key] = self.request
            self.known.setdefault(key, None)
        for key in forgotten & set(self.requests):
            self.order.remove(key)
            del self.requests[key], self.known[key]
        assert context.error is ErrorCode.NONE
        if not self.requests:
            assert len(self.made) == 0
            self.session_id = 0
            return
        self.epoch = next_epoch(self.epoch)
        assert list(context.partitions.items()) == [(key, self.requests[key]) for key in self.order]
        answers = [
            PartitionAnswer(
                key, self.watermarks[key], 0, has_records=key in with_records - with_error, has_error=key in with_error
            )
            for key in self.order
        ]
        answer = self.made.answer(context, answers, 0)
        news = {key for key in self.order if self.known[key] != self.watermarks[key]}
        assert answer.listed == news | ((with_records | with_error) & set(self.requests))
        for key in list(self.order):
            self.known[key] = None if key in with_error else self.watermarks[key]
            if key in with_records - with_error:
                self.order.remove(key)
                self.order.append(key)


TestFetchSessions = Lives.TestCase
TestFetchSessions.settings = hypothesis_settings(max_examples=examples(80), stateful_step_count=25, deadline=None)
