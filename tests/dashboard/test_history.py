"""The history keeps rates, lags and topics of ten minutes within its bounds."""

import sys

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.dashboard.history import (
    GROUPS_KEPT_MAX,
    KEPT_SECONDS,
    PATH_COLUMNS,
    SLOW_SECONDS,
    TOPICS_KEPT_MAX,
    Counted,
    History,
    Rates,
    Rows,
    Totals,
)
from pipeline_broker.dashboard.history_keeping import OFFSETS_READ_MAX, keep_history
from pipeline_broker.dashboard.viewers import BEAT_SECONDS
from pipeline_broker.web.messages import event
from tests.dashboard.board import Board

EVENT_BYTES_MAX = 128 * 1024
"""The limit in docs/guides/dashboard.md."""
NOTHING = Counted(0, 0, 0, 0, 0, 0)


def test_counters_become_rates_and_missing_ones_are_unknown():
    history = History()
    history.add_counted(100.0, NOTHING)
    assert history.path(100.0) == {"ages": [], **{name: [] for name in PATH_COLUMNS}}
    history.add_counted(102.0, Counted(10, 2_000, 4_000, 4, 8, 6_000_000))
    history.add_counted(103.0, Counted(10, 2_000, 4_000, 4, 8, 6_000_000))

    assert history.path(104.0) == {
        "ages": [2.0, 1.0],
        "requests_per_s": [5.0, 0.0],
        "in_per_s": [1_000.0, 0.0],
        "out_per_s": [2_000.0, 0.0],
        "batches_per_commit": [2.0, None],
        "commit_us": [1_500.0, None],
    }
    assert history.latest["requests_per_s"] == 0


values = st.dictionaries(st.sampled_from("abc"), st.none() | st.integers(0, 1_000), max_size=3)


@given(kept=st.integers(1, 5), rows=st.lists(values, max_size=12))
def test_the_newest_rows_are_kept_and_a_column_starts_when_it_was_added_last(kept, rows):
    table = Rows(kept)
    for at, row in enumerate(rows):
        table.add(float(at), row)
    for name in rows[-1] if rows else ():
        absent = [at for at, row in enumerate(rows) if name not in row]
        began = absent[-1] + 1 if absent else 0
        wanted = [row.get(name) if at >= began else None for at, row in enumerate(rows)]
        ages, (column,) = table.shown(float(len(rows)), name)
        assert column == wanted[-kept:]
        assert ages == list(range(min(kept, len(rows)), 0, -1))
    assert table.shown(0.0, "absent") == ([], [[]])


def test_topics_have_rates_and_a_recreated_one_has_none_yet():
    history = History()
    history.add_totals(10.0, {b"1": Totals(5, 100), b"2": Totals(7, 70)})
    assert history.rates(b"1") is None
    history.add_totals(15.0, {b"1": Totals(15, 600), b"3": Totals(1, 1)})

    assert history.rates(b"1") == Rates(2.0, 100.0)
    assert (history.rates(b"2"), history.rates(b"3")) == (None, None)


def test_the_lag_of_all_groups_is_the_sum_of_known_lags():
    history = History()
    history.add_lags(0.0, {"a": 3, "b": None, "c": 4})
    history.add_lags(5.0, {"b": None})

    assert history.lags(6.0) == {"ages": [6.0, 1.0], "lag": [7.0, None]}
    assert history.lags(6.0, "b") == {"ages": [6.0, 1.0], "lag": [None, None]}
    assert history.lags(6.0, "a") == {"ages": [], "lag": []}


def size_of(found, seen):
    """Return the bytes of all objects that are reachable through attributes and containers."""
    if id(found) in seen or isinstance(found, type):
        return 0
    seen.add(id(found))
    inner = []
    if isinstance(found, dict):
        inner = [*found.keys(), *found.values()]
    elif isinstance(found, tuple | list):
        inner = list(found)
    elif hasattr(found, "__dict__"):
        inner = list(vars(found).values())
    return sys.getsizeof(found) + sum(size_of(each, seen) for each in inner)


def test_the_history_reaches_its_bound_and_stays_there():
    history = History()
    for beat in range(2 * KEPT_SECONDS):
        history.add_counted(float(beat), Counted(*[beat * 10**12] * 6))
        if beat % SLOW_SECONDS == 0:
            history.add_lags(float(beat), {f"group-{number}": 10**12 + beat for number in range(GROUPS_KEPT_MAX)})
            totals = {b"%016d" % number: Totals(10**12 + beat, 10**12 + beat) for number in range(TOPICS_KEPT_MAX)}
            history.add_totals(float(beat), totals)

    assert len(history.path(0.0)["ages"]) == KEPT_SECONDS
    assert len(history.lags(0.0, "group-0")["ages"]) == KEPT_SECONDS // SLOW_SECONDS
    assert 200_000 < size_of(history, set()) < 700_000
    assert len(event(history.path(0.0), "history")) < EVENT_BYTES_MAX


def kept(board, seconds, then=lambda: None):
    """Keep a history for `seconds` on a virtual clock."""
    history = board.dashboard._history

    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_history, history, board.desk.broker)
            nursery.start_soon(board.dashboard.request_path.viewers.run)
            await trio.sleep(seconds / 2)
            then()
            await trio.sleep(seconds / 2)
            nursery.cancel_scope.cancel()
            return trio.current_time()

    return history, trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_the_history_is_kept_without_viewers():
    board = Board()
    board.commit("g", 0)
    history, now = kept(board, 2 * SLOW_SECONDS + 2, lambda: board.produce(*[(b"k", b"v" * 1_000, ())] * 20))

    assert board.observed == []
    assert len(history.path(now)["ages"]) >= 2 * SLOW_SECONDS / BEAT_SECONDS
    assert history.lags(now, "g")["lag"] == [0.0, 0.0, 20.0]
    rates = history.rates(board.desk.broker.topics.get("t").topic_id)
    assert rates.records_per_s == pytest.approx(20 / SLOW_SECONDS)
    assert rates.bytes_per_s > 20_000 / SLOW_SECONDS


def test_an_error_does_not_end_the_task(caplog):
    board = Board()

    class Failing:
        def __getattr__(self, name):
            raise ZeroDivisionError

    async def main():
        with trio.move_on_after(3 * SLOW_SECONDS):
            await keep_history(board.dashboard._history, Failing())

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert caplog.text.count("ZeroDivisionError") >= 3


def test_a_group_with_too_many_offsets_has_no_history(monkeypatch):
    monkeypatch.setattr("pipeline_broker.dashboard.history_keeping.OFFSETS_READ_MAX", 1)
    board = Board()
    board.commit("a", 0)
    board.commit("b", 0)
    history, now = kept(board, 2)

    assert OFFSETS_READ_MAX > 1
    assert (history.lags(now, "a")["lag"], history.lags(now, "b")["lag"]) == ([0.0], [])


def test_a_page_receives_the_history_first():
    board = Board()
    board.commit("g", 0)

    async def scenario(board):
        async with board.watching("/events/pipeline") as stream:
            name, history = await stream.next()
            assert (name, history.keys()) == ("history", {"ages", *PATH_COLUMNS})
        return [
            await board.get("/api/lags"),
            await board.get("/api/lags?group=g"),
            await board.get("/api/lags?group=x"),
        ]

    every, one, absent = board.run(scenario)
    assert (every["lag"], one["lag"], absent["lag"]) == ([0.0], [0.0], [])
