"""Effects of factors are recovered from synthetic rates, and reported only if no combination is missing."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analysis.cells import Cell, Load, Run
from spark_analysis.effects import factor_effects
from spark_analysis.findings import _factor_sentences

SECOND_NS = 1_000_000_000
REQUESTS = 1000


def run(rate, *, number=0, round_number=0, side=0, variant="", connections=1, in_flight=1, delay_ms=0.0, **columns):
    load = Load(columns.pop("client", "raw"), connections, in_flight, delay_ms, variant)
    return Run(
        number=number,
        round=round_number,
        traced=columns.pop("traced", False),
        side=side,
        cell=Cell(("classic", "pipelined")[side] if side < 2 else "kafka", load),
        flush="always",
        settings={"experiment": "sweep"},
        machine={},
        client_cpu_share=0.1,
        lost_rows=0,
        requests=REQUESTS,
        first_sent_ns=0,
        last_answered_ns=round(REQUESTS / rate * SECOND_NS),
        **columns,
    )


gains = st.floats(0.1, 30)


@given(
    depth_gain=gains,
    size_gain=gains,
    speedups=st.tuples(gains, gains),
    drifts=st.lists(st.floats(0.5, 2), min_size=1, max_size=4),
)
def test_factors_that_multiply_are_recovered(depth_gain, size_gain, speedups, drifts):
    """Two sides, two depths, two sizes, and rounds in which the machine drifts: each effect is recovered."""
    runs = []
    for (place, drift), (depth, size, side) in itertools.product(
        enumerate(drifts), itertools.product((0, 1), repeat=3)
    ):
        made = 1000 * drift * depth_gain**depth * size_gain**size * speedups[depth] ** side
        variant = "record_size=1000" if size else ""
        runs.append(run(made, round_number=place, side=side, in_flight=1 + 63 * depth, variant=variant))
    found = {(effect.factor, effect.level): effect for effect in factor_effects(runs)}
    assert set(found) == {("in flight", "1"), ("in flight", "64"), ("record_size", "default"), ("record_size", "1000")}
    for depth, level in enumerate(("1", "64")):
        assert found["in flight", level].speedup.value == pytest.approx(speedups[depth], rel=1e-4)
        assert found["in flight", level].loads == 2
    middle = math.sqrt(speedups[0] * speedups[1])
    assert found["record_size", "default"].speedup.value == pytest.approx(middle, rel=1e-4)
    assert found["record_size", "default"].over_first is None
    over = found["record_size", "1000"].over_first
    assert [ratio.value for ratio in over] == [pytest.approx(size_gain, rel=1e-4)] * 2
    over = found["in flight", "64"].over_first
    assert over[1].value / over[0].value == pytest.approx(speedups[1] / speedups[0], rel=1e-4)
    assert found["in flight", "1"].speedup.rounds == len(drifts)


def grid(levels=((1, 64), (0.0, 2.0), (100, 1000)), rounds=2):
    """Return a load for every combination, both sides; the speed-up is the depth."""
    return [
        run(
            100.0 * (depth if side else 1),
            round_number=place,
            side=side,
            in_flight=depth,
            delay_ms=delay,
            factors={"record_bytes": size},
            variant=f"record_size={size}" if size != 100 else "",
        )
        for place in range(rounds)
        for depth, delay, size in itertools.product(*levels)
        for side in (0, 1)
    ]


def test_the_factor_that_matters_most_comes_first_and_levels_go_upwards():
    """Names are those of the sweep; the default level comes from the resolved factors of the run."""
    effects = factor_effects(grid())
    told = [(effect.factor, effect.level) for effect in effects]
    (sentence,) = _factor_sentences(SimpleNamespace(effects=effects))
    assert sentence.startswith("Of the factors, in flight changes the speed-up most: ")
    assert told[:2] == [("in flight", "1"), ("in flight", "64")]
    assert ("record_size", "100") in told
    assert told.index(("record_size", "100")) < told.index(("record_size", "1000"))
    assert told.index(("commit delay", "0 ms")) < told.index(("commit delay", "2 ms"))


@pytest.mark.parametrize(
    "what", ["a combination is missing", "a side is missing", "one factor", "another client", "traced only", "nothing"]
)
def test_incomplete_experiments_have_no_effects(what):
    """A mean over loads would compare loads that differ in more than one factor."""
    whole = grid()
    runs = {
        "a combination is missing": [it for it in whole if it.cell.load[2:5] != (64, 2.0, "record_size=1000")],
        "a side is missing": [it for it in whole if it.side == 0],
        "one factor": grid(((1, 64), (0.0,), (100,))),
        "another client": [run(100.0, side=s, in_flight=d, connections=c, client="confluent-kafka linger=0")
                           for s in (0, 1) for d in (1, 5) for c in (1, 2)],
        "traced only": [run(100.0, side=s, in_flight=d, connections=c, traced=True)
                        for s in (0, 1) for d in (1, 5) for c in (1, 2)],
        "nothing": [],
    }[what]  # fmt: skip
    assert factor_effects(runs) == []


def test_an_interrupted_round_is_left_out():
    """It would give some loads more weight than others. Runs of other brokers do not count either."""
    runs = grid(rounds=3)
    whole = factor_effects(runs)
    assert {effect.speedup.rounds for effect in whole} == {3}
    for there in (runs[:-1], [*runs[:-2], runs[-1]]):
        interrupted = factor_effects([*there, run(5.0, side=2)])
        assert {effect.speedup.rounds for effect in interrupted} == {2}


def test_factors_without_effect_are_sorted_like_loads_and_then_by_name():
    """Levels are sorted: the default, numbers by size, words."""
    levels = itertools.product((2, 10), (1, 8), (0.0, 2.0), ("", "zoo=9", "zoo=10", "zoo=b", "zoo=a"), ("", "ape=1"))
    runs = [
        run(100.0, side=side, connections=connections, in_flight=depth, delay_ms=delay, variant=f"{zoo} {ape}".strip())
        for connections, depth, delay, zoo, ape in levels
        for side in (0, 1)
    ]
    told = [(effect.factor, effect.level) for effect in factor_effects(runs)]
    assert told == [
        ("connections", "2"),
        ("connections", "10"),
        ("in flight", "1"),
        ("in flight", "8"),
        ("commit delay", "0 ms"),
        ("commit delay", "2 ms"),
        ("ape", "default"),
        ("ape", "1"),
        *(("zoo", level) for level in ("default", "9", "10", "a", "b")),
    ]
    assert {effect.loads for effect in factor_effects(runs) if effect.factor == "zoo"} == {16}


def test_a_load_with_two_runs_in_a_round_has_the_rate_of_both():
    twice = run(300.0, side=1, in_flight=64, connections=2)
    grid_runs = [run(100.0, side=s, in_flight=d, connections=c) for s in (0, 1) for d in (1, 64) for c in (1, 2)]
    (one, many) = [it for it in factor_effects([*grid_runs, twice]) if it.factor == "connections"]
    rate_of_both = 2 * REQUESTS / (REQUESTS / 100 + REQUESTS / 300)
    assert many.speedup.value == pytest.approx(math.sqrt(rate_of_both / 100))
    assert one.speedup.value == pytest.approx(1)


def test_runs_of_other_brokers_and_runs_without_a_rate_do_not_count():
    runs = grid(rounds=2)
    aside = run(5.0, side=2, in_flight=7)
    assert [(it.factor, it.level, it.speedup) for it in factor_effects([*runs, aside])] == [
        (it.factor, it.level, it.speedup) for it in factor_effects(runs)
    ]
