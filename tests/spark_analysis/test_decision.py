"""The first page decides by intervals: an undecided load has no number in large type, and no reason."""

from __future__ import annotations

import attrs
import pytest

from spark_analysis.decision import (
    DEPENDS,
    DOES_NOT_PAY,
    NOT_MEASURED,
    PAYS,
    UNDECIDED,
    Decision,
    decisions,
    why_unkept,
)
from spark_analysis.figures import Commits
from spark_analysis.findings import unpaying
from spark_analysis.interval import Ratio
from spark_analysis.judgement import Judgement, judge, latency_finding, rate_finding
from spark_analysis.offered import PacedSide
from spark_analysis.report.page import render
from spark_analysis.run_quality import Light, run_quality
from spark_analysis.tables import PAIRS_CLIENT, READER_CLIENT, REPLAY_CLIENT
from spark_analysis.words import ends, pace, times
from tests.spark_analysis import made

DEEP = made.load(1, in_flight=64)
SINGLE = made.load(1, in_flight=1)
LINGERING = made.load(1, client="confluent-kafka linger=5")
SURE, NONE, WIDE = (3.0, 3.1, 3.2, 2.9, 3.0), (1.0, 1.01, 0.99, 1.0, 1.01), (0.2, 4.0, 1.5, 9.0, 0.5)


def decision_of(runs, subject="native client"):
    (found,) = [each for each in decisions(made.comparison(runs)) if each.subject == subject]
    return found


@pytest.mark.parametrize(
    ("gains", "answer"),
    [
        ([SURE], PAYS),
        ([SURE, NONE], DEPENDS),
        ([SURE, WIDE], DEPENDS),
        ([NONE], DOES_NOT_PAY),
        ([[1 / gain for gain in SURE]], DOES_NOT_PAY),
        ([(1.04, 1.05, 1.06, 1.05, 1.04)], DOES_NOT_PAY),
        ([NONE, WIDE], UNDECIDED),
        ([WIDE], UNDECIDED),
        ([[2.0]], UNDECIDED),
    ],
)
def test_a_client_is_decided_by_the_intervals_of_its_loads(gains, answer):
    runs = [run for number, each in enumerate(gains) for run in made.pairs(made.load(number), each)]
    found = decision_of(runs)
    assert found.answer == answer
    assert bool(found.headline) == (answer in (PAYS, DEPENDS))


def test_headlines_contain_decided_loads_only_and_every_line_has_an_interval():
    """The single request gains 0.2x to 9x, the deep one 3x: only 3x is in large type."""
    found = decision_of([*made.pairs(DEEP, SURE), *made.pairs(SINGLE, WIDE)])
    assert found.headline == "3.0x"
    assert found.lines[0].startswith(
        "More requests under 1 of 2 loads: 3.0x with 1 connection x 64 in flight (95% interval "
    )
    assert found.lines[1].startswith("Not decided with 1 connection x 1 in flight (")


SMALL_GAIN = (1.04, 1.05, 1.06, 1.05, 1.04)
SLOWER = tuple(1 / gain for gain in SURE)
ALL_KINDS = (SURE, SMALL_GAIN, NONE, SLOWER, WIDE)


def paced(number, gains, *, client="raw", **waited):
    """Return an open loop in which side 1 has a latency lower by these gains; other fields of the latency are given."""
    rate = 0.0 if client == REPLAY_CLIENT else 100.0 * number
    of = made.load(1, client=client, offered_of="classic", offered_share=number / 10, offered_per_s=rate)
    return [
        made.run(
            of,
            place,
            side,
            100.0,
            waited={"p99_us": 4000.0 / (gain if side else 1.0), "late_us": 50.0, "growth": 0.0, **waited},
            settings={"experiment": "ladder"},
        )
        for place, gain in enumerate(gains)
        for side in (0, 1)
    ]


def test_loads_are_listed_by_their_judgement():
    runs = [run for number, gains in enumerate(ALL_KINDS) for run in made.pairs(made.load(number), gains)]
    found = decision_of(runs)
    assert [line.split(" with ")[0] for line in found.lines[1:5]] == [
        "A gain below a tenth",
        "No gain",
        "Slower",
        "Not decided",
    ]
    assert found.lines[0].startswith("More requests under 1 of 5 loads: 3.0x with 0 connections x 5 in flight (95% ")
    assert found.lines[5].startswith("p99 latency at full speed, over that of classic: 0.33x with 0 connections ")
    assert ", 0.95x with 1 connection x 5 in flight (" in found.lines[5], "from the shortest to the longest"
    assert found.lines[6].startswith("p99 latency at full speed is longer with 3 connections x 5 in flight (2.")
    assert len(found.lines) == 7


def test_three_of_many_loads_are_named_and_the_others_counted():
    runs = [run for number in range(5) for run in made.pairs(made.load(number), NONE)]
    (line, waits) = decision_of(runs).lines
    assert line.count(" in flight (") == 3
    assert line.endswith(") and 2 more.")
    assert waits == "p99 latency at full speed: not decided under any load."
    (line, _) = decision_of(runs[:30]).lines
    assert line.endswith("2 connections x 5 in flight (0.99x to 1.01x)."), "three are all"


def test_a_headline_spans_the_decided_ratios():
    twice = tuple(gain * 2 for gain in SURE)
    runs = [run for number, gains in enumerate((SURE, twice, SURE)) for run in made.pairs(made.load(number), gains)]
    assert (decision_of(runs).answer, decision_of(runs).headline) == (PAYS, "3.0x to 6.1x")
    assert decision_of(runs[:10]).headline == "3.0x"
    half = tuple(gain / 2 for gain in SURE)
    runs = [run for number, gains in enumerate((SURE, twice, half)) for run in made.pairs(made.load(number), gains)]
    assert decision_of(runs).headline == "1.52x to 6.1x"


ABOVE = (2.0, 8.0, 4.0, 3.0, 5.0)
"""Gains that are surely above 1, and of no certain size."""


def test_a_wide_interval_gives_a_bound_and_several_give_a_common_bound():
    alone = decision_of(made.pairs(made.load(1), ABOVE))
    low = alone.headline.removeprefix("at least ")
    assert alone.answer == PAYS
    assert alone.lines[0].startswith(f"More requests under 1 of 1 load: at least {low} with ")
    assert f"(95% interval {low} to " in alone.lines[0]
    both = decision_of(made.pairs(made.load(1), ABOVE) + made.pairs(made.load(2), tuple(gain * 3 for gain in SURE)))
    assert both.headline == f"at least {low}"
    assert ", 9.1x with " in both.lines[0]


def test_a_mode_compared_with_itself_decides_nothing():
    runs = [attrs.evolve(run, cell=run.cell._replace(mode="classic")) for run in made.pairs(DEEP, SURE)]
    assert decisions(made.comparison(runs)) == []


def test_latency_at_equal_load_is_reported_pace_by_pace():
    runs = [run for number, gains in enumerate(ALL_KINDS, 1) for run in paced(number, gains)]
    comparison = made.comparison(runs)
    (found,) = [each for each in decisions(comparison) if each.subject == "Latency at equal load"]
    words = (
        "Shorter p99 at",
        "p99 shorter by less than a tenth at",
        "No shorter p99 at",
        "Longer p99 at",
        "Not decided at",
    )
    said = [each.ratios["p99"] for each in comparison.equal_loads]
    told = [
        f"{word} {pace(each.load)}: {times(ratio.value)} ({ends(ratio)})."
        for word, each, ratio in zip(words, comparison.equal_loads, said, strict=True)
    ]
    undecided = f"Not decided at {pace(comparison.equal_loads[-1].load)} ({ends(said[-1])})."
    assert found.lines == (*told[:-1], undecided)
    assert (found.answer, found.headline) == (DEPENDS, "p99 0.33x to 0.95x")
    (none,) = [each for each in decisions(made.comparison(paced(1, NONE))) if each.subject == found.subject]
    assert (none.answer, none.headline) == (DOES_NOT_PAY, "")


def consumed(gains, waits):
    """Return runs of readers and pairs; side 1 has these gains in rate and p99, and a worse median of the pairs."""
    settings = {"experiment": "consumers"}
    reading = made.pairs(made.load(16, client=READER_CLIENT, in_flight=1), gains, settings=settings)
    pair = made.load(1, client=PAIRS_CLIENT, in_flight=0, offered_per_s=1000.0)
    timed = []
    for run in made.pairs(pair, waits, settings=settings):
        p50_us = run.latency.p99_us if run.side else run.latency.p50_us
        timed.append(attrs.evolve(run, latency=attrs.evolve(run.latency, p50_us=p50_us, late_us=50.0, growth=0.0)))
    return [*reading, *timed]


def test_consumers_have_a_box_of_their_own():
    comparison = made.comparison([*made.pairs(DEEP, SURE), *consumed(NONE, (2.0, 2.02, 1.98, 2.0, 2.01))])
    subjects = [each.subject for each in decisions(comparison)]
    assert subjects == ["Ordinary clients", "native client", "Latency at equal load", "Consumers"]
    boxes = dict(zip(subjects, decisions(comparison), strict=True))
    assert boxes["Latency at equal load"].answer == NOT_MEASURED
    assert len(boxes["native client"].lines) == 2
    assert boxes["Consumers"].answer == DEPENDS
    reading, timed, _ = boxes["Consumers"].lines
    assert reading.startswith("Reading with 16 connections x 1 fetch in flight: no gain (0.99x to 1.01x")
    assert timed.startswith("From publishing to consuming with 1 pair, 1,000/s: p50 2.5x (")
    assert ", p99 0.50x (" in timed


@pytest.mark.parametrize(
    ("gains", "waits", "answer"), [(NONE, NONE, DOES_NOT_PAY), (WIDE, NONE, UNDECIDED), (SURE, SLOWER, DEPENDS)]
)
def test_consumers_are_decided_by_rate_and_latency(gains, waits, answer):
    assert decision_of(consumed(gains, waits), "Consumers").answer == answer


def test_a_slower_fetch_is_reported_beside_the_rate():
    runs = [run for run in consumed(NONE, NONE) if run.cell.load.client == READER_CLIENT]
    slower = [
        attrs.evolve(run, latency=attrs.evolve(run.latency, p99_us=run.latency.p99_us * (1.5 if run.side else 1.0)))
        for run in runs
    ]
    found = decision_of(slower, "Consumers")
    assert found.lines[1].startswith("p99 of a fetch is longer with 16 connections x 1 fetch in flight (1.4")


def test_the_page_shows_when_the_brokers_of_its_run_answered():
    runs = [attrs.evolve(run, flush="os") for run in made.pairs(DEEP, SURE)]
    comparison = made.comparison(runs)
    assert "in the page cache (flush=os). Brokers that wait for the disk" in render(
        comparison, run_quality(comparison), "out"
    )


def test_without_consumers_the_page_has_no_box_for_them():
    assert "Consumers" not in [each.subject for each in decisions(made.comparison(made.pairs(DEEP, SURE)))]


def with_kafka(of, gains, kafka):
    """Return runs of both sides and of Apache Kafka; side 0 has a rate of 1000, Kafka the given one."""
    others = [made.run(of, place, 2, kafka, mode="kafka-synced") for place in range(len(gains))]
    return [*made.pairs(of, gains), *others]


def test_a_box_has_both_sides_over_another_broker():
    found = decision_of([*with_kafka(DEEP, SURE, 2000.0), *with_kafka(SINGLE, NONE, 500.0)])
    assert found.lines[-1].startswith(
        "Over Apache Kafka that flushes every message: pipelined 1.52x with 1 connection x 64 in flight (1.4"
    )
    assert found.lines[-1].endswith(
        "; classic 0.50x with 1 connection x 64 in flight (0.50x to 0.50x) to "
        "2.0x with 1 connection x 1 in flight (2.0x to 2.0x)."
    )


def test_a_box_of_consumers_names_the_median_of_every_broker():
    timed = [run for run in consumed(NONE, NONE) if run.cell.load.offered_per_s]
    kafka = [attrs.evolve(run, side=2, cell=run.cell._replace(mode="kafka")) for run in timed if run.side == 0]
    lines = decision_of([*consumed(NONE, NONE), *kafka], "Consumers").lines
    assert "p50: classic 1.00 ms, pipelined 4.99 ms, kafka 1.00 ms." in lines


def test_a_replay_has_a_box_with_the_latency_of_both_sides():
    found = decision_of(paced(1, SURE, client=REPLAY_CLIENT), "Replayed events")
    assert (found.answer, found.headline) == (PAYS, "p99 0.33x")
    (line,) = found.lines
    assert line.startswith("p99 wait: 0.33x that of classic (95% interval ")
    assert line.endswith("): classic 4.00 ms, pipelined 1.32 ms.")
    worse = decision_of(paced(1, SLOWER, client=REPLAY_CLIENT), "Replayed events")
    assert (worse.answer, worse.headline) == (DOES_NOT_PAY, "")
    few = decision_of(paced(1, SURE, client=REPLAY_CLIENT, samples=10), "Replayed events")
    assert (few.answer, few.headline) == (UNDECIDED, "")
    assert few.lines[0].startswith("classic did not keep ")
    kept = [attrs.evolve(run, requests=10) for run in paced(1, SURE, client=REPLAY_CLIENT, samples=10)]
    assert decision_of(kept, "Replayed events").lines == ("The events are too few for a p99.",)


def test_an_experiment_with_only_a_replay_has_only_its_box():
    comparison = made.comparison(paced(1, SURE, client=REPLAY_CLIENT))
    assert [each.subject for each in decisions(comparison)] == ["Replayed events"]
    (intervals,) = [it for it in run_quality(comparison).measures if it.name == "intervals"]
    assert intervals.light is Light.GOOD
    page = render(comparison, run_quality(comparison), "out")
    assert "proven faster" not in page
    assert 'id="replay"' in page


@pytest.mark.parametrize(
    ("share", "late_ms", "why"),
    [
        (0.49, 0.0, "answers arrived at less than 50% of the pace"),
        (0.5, 0.0, "answers arrived at 50.0% of the pace"),
        (0.979, 0.0, "answers arrived at 97.9% of the pace"),
        (0.0, None, "nothing was sent"),
        (1.0, None, "nothing was sent"),
    ],
)
def test_a_side_that_did_not_keep_the_pace_has_a_reason(share, late_ms, why):
    assert why_unkept(PacedSide("classic", 0, 1, 1, share, late_ms, {})) == why


def test_each_answer_has_its_tone():
    answers = (PAYS, DEPENDS, DOES_NOT_PAY, UNDECIDED, NOT_MEASURED)
    assert [Decision("", answer, "", ()).tone for answer in answers] == ["yes", "partly", "no", "open", "open"]


def test_each_client_has_a_box_and_ordinary_clients_come_first():
    runs = [*made.pairs(DEEP, SURE), *made.pairs(LINGERING, NONE)]
    found = decisions(made.comparison(runs))
    assert [(each.subject, each.answer) for each in found] == [
        ("confluent-kafka, linger 5 ms", DOES_NOT_PAY),
        ("native client", PAYS),
        ("Latency at equal load", NOT_MEASURED),
    ]
    assert decisions(made.comparison(made.pairs(DEEP, SURE)))[0].answer == NOT_MEASURED


def test_a_longer_tail_is_reported_beside_the_gain():
    runs = [attrs.evolve(run, latency=attrs.evolve(run.latency, p99_us=run.latency.p99_us * (9 if run.side else 1)))
            for run in made.pairs(DEEP, SURE)]  # fmt: skip
    found = decision_of(runs)
    assert found.answer == PAYS
    assert "p99 latency at full speed is longer with 1 connection x 64 in flight (2." in found.lines[-1]
    ((load, _, finding, _),) = unpaying(made.comparison(runs))
    assert load == DEEP
    assert finding.startswith("p99 grows to 3.0x")


def test_an_undecided_load_has_no_reason():
    """One request in flight is not a reason: no measurement shows it."""
    ((_, _, finding, why),) = unpaying(made.comparison(made.pairs(SINGLE, WIDE)))
    assert finding.startswith("not decided: the interval is ")
    assert why == ""


def test_a_reason_comes_from_a_measurement():
    """No gain, and the commits of both modes contain one batch each, which was counted."""
    commits = {cell: Commits({1: 500}, 500, 300.0, 400.0, 250.0) for cell in cells_of(made.pairs(SINGLE, NONE))}
    comparison = made.comparison(made.pairs(SINGLE, NONE), commits=commits)
    ((_, _, finding, why),) = unpaying(comparison)
    assert finding == "no gain: 0.99x to 1.01x"
    assert (
        why == "a commit contains 1.0 batches on average in pipelined and 1.0 in classic, so group commit does not help"
    )
    gathered = {cell: Commits({1 + 5 * (cell.mode == "pipelined"): 500}, 500, 1.0, 1.0, 1.0) for cell in commits}
    ((*_, why),) = unpaying(made.comparison(made.pairs(SINGLE, NONE), commits=gathered))
    assert why == ""


def cells_of(runs):
    return dict.fromkeys(run.cell for run in runs)


@pytest.mark.parametrize(
    ("ratio", "judgement", "words"),
    [
        (Ratio(2.0, 1.8, 2.2, 5, 0.001, 0.01), Judgement.PAYS, "pays"),
        (Ratio(1.05, 1.02, 1.08, 5, 0.001, 0.01), Judgement.SMALL, "small gain"),
        (Ratio(0.8, 0.7, 0.9, 5, 0.001, 0.01), Judgement.WORSE, "slower"),
        (Ratio(1.02, 0.98, 1.06, 5, 0.3, 1.0), Judgement.NO_GAIN, "no gain: 0.98x to 1.06x"),
        (Ratio(1.5, 0.5, 4.5, 5, 0.3, 1.0), Judgement.UNDECIDED, "not decided: the interval is 0.50x to 4.5x"),
        (
            Ratio(1.5, 1.1, 2.0, 5, 0.02, 0.2),
            Judgement.UNDECIDED,
            "not decided: beyond chance alone, but not after the correction for all loads",
        ),
        (Ratio(1.5, None, None, 1), Judgement.UNDECIDED, "not decided: too few rounds for an interval"),
    ],
)
def test_a_ratio_is_judged_by_its_interval_and_its_family(ratio, judgement, words):
    assert judge(ratio) is judgement
    assert rate_finding(ratio) == words


@pytest.mark.parametrize(
    ("ratio", "words"),
    [
        (Ratio(0.5, 0.45, 0.55, 5, 0.001, 0.01), "shorter"),
        (Ratio(0.95, 0.93, 0.97, 5, 0.001, 0.01), "shorter by less than a tenth"),
        (Ratio(1.2, 1.1, 1.3, 5, 0.001, 0.01), "longer"),
        (Ratio(0.98, 0.94, 1.02, 5, 0.3, 1.0), "no shorter: 0.94x to 1.02x"),
        (Ratio(0.6, 0.25, 1.44, 5, 0.3, 1.0), "not decided: the interval is 0.25x to 1.44x"),
        (Ratio(0.6, None, None, 1), "not decided: too few rounds for an interval"),
    ],
)
def test_a_latency_is_judged_inversely_and_shows_its_own_interval(ratio, words):
    assert latency_finding(ratio) == words


def test_the_inverse_of_a_ratio_is_judged_inversely():
    ratio = Ratio(0.5, 0.4, 0.6, 5, 0.001, 0.01)
    assert (ratio.inverse.value, ratio.inverse.low, ratio.inverse.high) == pytest.approx((2.0, 1 / 0.6, 2.5))
    assert judge(ratio.inverse) is Judgement.PAYS
