"""The first page decides by intervals: an undecided load has no number in large type, and no reason."""

from __future__ import annotations

import attrs
import pytest

from spark_analysis.decision import (
    BARELY,
    BOTH,
    FASTER,
    NO_GAIN,
    NOT_MEASURED,
    SLOWER,
    SOME,
    TONES,
    UNDECIDED,
    decisions,
    why_unkept,
    withheld,
)
from spark_analysis.figures import Commits
from spark_analysis.findings import unpaying
from spark_analysis.interval import Ratio
from spark_analysis.offered import PacedSide
from spark_analysis.report.page import render
from spark_analysis.run_quality import Light, run_quality
from spark_analysis.tables import PAIRS_CLIENT, READER_CLIENT, REPLAY_CLIENT
from spark_analysis.words import describe_paced, ends, measured, times
from tests.spark_analysis import made

DEEP = made.load(1, in_flight=64)
SINGLE = made.load(1, in_flight=1)
LINGERING = made.load(1, client="confluent-kafka linger=5")
SURE, NONE, WIDE = (3.0, 3.1, 3.2, 2.9, 3.0), (1.0, 1.01, 0.99, 1.0, 1.01), (0.2, 4.0, 1.5, 9.0, 0.5)
SMALL_GAIN = (1.04, 1.05, 1.06, 1.05, 1.04)
LOSS = tuple(1 / gain for gain in SURE)
ALL_KINDS = (SURE, SMALL_GAIN, NONE, LOSS, WIDE)


def decision_of(runs, subject="native client"):
    (found,) = [each for each in decisions(made.comparison(runs)) if each.subject == subject]
    return found


@pytest.mark.parametrize(
    ("gains", "answer"),
    [
        ([SURE], FASTER),
        ([SURE, NONE], FASTER + SOME),
        ([SURE, WIDE], FASTER + SOME),
        ([SURE, SMALL_GAIN], FASTER + SOME),
        ([SURE, LOSS], BOTH),
        ([SURE, LOSS, NONE, WIDE], BOTH),
        ([LOSS], SLOWER),
        ([LOSS, NONE], SLOWER + SOME),
        ([LOSS, WIDE], SLOWER + SOME),
        ([LOSS, SMALL_GAIN], SLOWER + SOME),
        ([SMALL_GAIN], BARELY),
        ([SMALL_GAIN, NONE], BARELY + SOME),
        ([NONE], NO_GAIN),
        ([NONE, WIDE], NO_GAIN + SOME),
        ([WIDE], UNDECIDED),
        ([[2.0]], UNDECIDED),
    ],
)
def test_a_client_is_decided_by_the_intervals_of_its_loads(gains, answer):
    runs = [run for number, each in enumerate(gains) for run in made.pairs(made.load(number), each)]
    found = decision_of(runs)
    assert found.answer == answer
    assert bool(found.headline) == (SURE in gains or LOSS in gains)
    assert found.tone == TONES[answer]


def test_headlines_contain_decided_loads_only_and_every_line_has_an_interval():
    """The single request gains 0.2x to 9x, the deep one 3x: only the bound of 3x is in large type."""
    found = decision_of([*made.pairs(DEEP, SURE), *made.pairs(SINGLE, WIDE)])
    assert found.headline == "at least 2.9x"
    assert found.lines[0].startswith("More requests under 1 of 2 loads: 3.0x (2.9x to ")
    assert found.lines[0].endswith("x) for 1 connection x 64 in flight.")
    assert found.lines[1].startswith(
        "Not decided (a gain is neither proven nor excluded): 1 connection x 1 in flight (0."
    )


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


def test_loads_are_listed_by_their_judgement_and_each_judgement_is_explained():
    runs = [run for number, gains in enumerate(ALL_KINDS) for run in made.pairs(made.load(number), gains)]
    found = decision_of(runs)
    assert [line.split(": ")[0] for line in found.lines] == [
        "More requests under 1 of 5 loads",
        "A gain below a tenth",
        "No gain (a gain of a tenth is excluded)",
        "Slower",
        "Not decided (a gain is neither proven nor excluded)",
        "Shorter p99 at full speed",
        "Shorter p99 at full speed (by less than a tenth)",
        "Longer p99 at full speed",
    ]
    assert found.lines[3].startswith("Slower: 0.33x (0.3")
    assert found.lines[3].endswith(") for 3 connections x 5 in flight.")


def test_three_of_many_undecided_loads_are_named_and_the_others_counted():
    runs = [run for number in range(5) for run in made.pairs(made.load(number), NONE)]
    (line, waits) = decision_of(runs).lines
    assert line.count(" in flight (") == 3
    assert line.endswith("); and 2 more.")
    assert waits == "No load has a p99 at full speed that is proven shorter or longer."
    (line, _) = decision_of(runs[:30]).lines
    assert line.endswith("2 connections x 5 in flight (0.99x to 1.01x)."), "three are all"


@pytest.mark.parametrize(("loads", "named"), [(3, "3.0x (2."), (4, "least 3.0x (2.")])
def test_of_many_claims_the_least_and_the_greatest_are_named_as_such(loads, named):
    runs = [
        run
        for number in range(loads)
        for run in made.pairs(made.load(number), tuple(gain * (1 + number) for gain in SURE))
    ]
    line = decision_of(runs).lines[0]
    assert f"loads: {named}" in line
    assert line.count("x (") == (3 if loads == 3 else 2), "one ratio with one interval per load"
    assert ("; greatest 12.2x (" in line) == (loads == 4)


def bounds(gains):
    ratio = made.comparison(made.pairs(DEEP, gains)).speedups[DEEP]
    return times(ratio.low), times(ratio.high)


def test_a_headline_is_a_bound_that_all_ratios_of_its_kind_keep():
    """The form does not depend on the width of the intervals."""
    wide, twice = (2.0, 8.0, 4.0, 3.0, 5.0), tuple(gain * 2 for gain in SURE)
    for gains, least in (((SURE,), SURE), ((SURE, twice), SURE), ((twice, wide), wide), ((wide,), wide)):
        runs = [run for number, each in enumerate(gains) for run in made.pairs(made.load(number), each)]
        assert decision_of(runs).headline == f"at least {bounds(least)[0]}"
    both = [*made.pairs(DEEP, SURE), *made.pairs(SINGLE, LOSS)]
    assert decision_of(both).headline == f"at least {bounds(SURE)[0]} or at most {bounds(LOSS)[1]}"


def test_an_interval_that_excludes_one_does_not_end_at_one():
    assert ends(Ratio(0.9, 0.85, 0.9996, 5, 0.01)) == "0.85x to 0.9996x"
    assert ends(Ratio(1.1, 1.004, 1.2, 5, 0.01)) == "1.004x to 1.20x"
    assert ends(Ratio(1.0, 0.996, 1.004, 5, 0.9)) == "1.00x to 1.00x"


def test_small_ratios_keep_two_digits():
    assert [times(value) for value in (0.0004, 0.041, 0.0995, 0.3)] == ["below 0.001x", "0.041x", "0.10x", "0.30x"]


def test_a_poor_run_withholds_every_claim():
    boxes = decisions(made.comparison(made.pairs(DEEP, SURE)))
    found = [withheld(box) for box in boxes]
    assert [box.answer for box in found] == [NOT_MEASURED, "Not decided: poor run", NOT_MEASURED]
    assert (found[1].headline, found[1].lines, found[1].tone) == ("", (), "open")
    assert found[0] == boxes[0]


def test_a_mode_compared_with_itself_decides_nothing():
    runs = [attrs.evolve(run, cell=run.cell._replace(mode="classic")) for run in made.pairs(DEEP, SURE)]
    assert decisions(made.comparison(runs)) == []


def test_latency_at_equal_load_is_reported_pace_by_pace():
    runs = [run for number, gains in enumerate(ALL_KINDS, 1) for run in paced(number, gains)]
    comparison = made.comparison(runs)
    (found,) = [each for each in decisions(comparison) if each.subject == "Latency at equal load"]
    paces = [describe_paced(each.load) for each in comparison.equal_loads]
    faster, barely, none, slower, wide = [each.ratios["p99"] for each in comparison.equal_loads]
    assert paces[0] == "1 connection at 10% of classic's capacity (100/s)"
    assert found.lines == (
        f"Shorter p99: {measured(faster)} for {paces[0]}.",
        f"Shorter p99 (by less than a tenth): {measured(barely)} for {paces[1]}.",
        f"No shorter p99 (a gain of a tenth is excluded): {paces[2]} ({ends(none)}).",
        f"Longer p99: {measured(slower)} for {paces[3]}.",
        f"Not decided (a gain is neither proven nor excluded): {paces[4]} ({ends(wide)}).",
    )
    assert found.answer == BOTH
    assert found.headline == f"p99 at most {times(faster.high)} or at least {times(slower.low)}"
    (none,) = [each for each in decisions(made.comparison(paced(1, NONE))) if each.subject == found.subject]
    assert (none.answer, none.headline) == (NO_GAIN, "")


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
    assert boxes["Consumers"].answer == BOTH
    reading, shorter, longer, medians = boxes["Consumers"].lines
    assert reading == (
        "Reading, no gain (a gain of a tenth is excluded): 16 connections x 1 fetch in flight (0.99x to 1.01x)."
    )
    assert shorter.startswith("Shorter wait from publishing to consuming: 0.50x (0.4")
    assert shorter.endswith(") for p99 of 1 pair at 1,000/s.")
    assert longer.startswith("Longer wait from publishing to consuming: 2.5x (2.")
    assert longer.endswith(") for p50 of 1 pair at 1,000/s.")
    assert medians.startswith("p50 of 1 pair at 1,000/s: classic ")


@pytest.mark.parametrize(
    ("gains", "waits", "answer"),
    [
        (NONE, LOSS, SLOWER + SOME),
        (SURE, LOSS, BOTH),
        (LOSS, NONE, SLOWER + SOME),
    ],
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
    assert found.lines[1].startswith("Longer p99 of a fetch: 1.5")
    assert found.lines[1].endswith(") for 16 connections x 1 fetch in flight.")


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
    assert found.lines[-2].startswith("pipelined over Apache Kafka that flushes every message: 1.52x (1.4")
    assert found.lines[-1] == (
        "classic over Apache Kafka that flushes every message: 0.50x (0.50x to 0.50x) for 1 connection x 64 in flight; "
        "2.0x (2.0x to 2.0x) for 1 connection x 1 in flight."
    )


def test_a_box_of_consumers_names_the_median_of_every_broker():
    timed = [run for run in consumed(NONE, NONE) if run.cell.load.offered_per_s]
    kafka = [attrs.evolve(run, side=2, cell=run.cell._replace(mode="kafka")) for run in timed if run.side == 0]
    lines = decision_of([*consumed(NONE, NONE), *kafka], "Consumers").lines
    assert "p50 of 1 pair at 1,000/s: classic 1.00 ms, pipelined 4.99 ms, kafka 1.00 ms." in lines


def test_a_replay_has_a_box_with_the_latency_of_both_sides():
    found = decision_of(paced(1, SURE, client=REPLAY_CLIENT), "Replayed events")
    assert (found.answer, found.headline) == (FASTER, "p99 at most 0.34x")
    ratio, absolute = found.lines
    assert ratio.startswith("Shorter p99: 0.33x (0.3")
    assert absolute == "p99: classic 4.00 ms, pipelined 1.32 ms."
    worse = decision_of(paced(1, LOSS, client=REPLAY_CLIENT), "Replayed events")
    assert (worse.answer, worse.headline) == (SLOWER, "p99 at least 2.9x")
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
    ("requests", "share", "why"),
    [
        (1, 0.49, "answers arrived at less than 50% of the pace"),
        (1, 0.5, "answers arrived at 50.0% of the pace"),
        (1, 0.979, "answers arrived at 97.9% of the pace"),
        (19_726, 0.0, "no measured request was answered before the run ended"),
        (0, 0.0, "no measured request was sent"),
    ],
)
def test_a_side_that_did_not_keep_the_pace_has_a_reason(requests, share, why):
    assert why_unkept(PacedSide("classic", 0, 1, requests, share, None, {})) == why


def test_each_client_has_a_box_and_ordinary_clients_come_first():
    runs = [*made.pairs(DEEP, SURE), *made.pairs(LINGERING, NONE)]
    found = decisions(made.comparison(runs))
    assert [(each.subject, each.answer) for each in found] == [
        ("confluent-kafka, linger 5 ms", NO_GAIN),
        ("native client", FASTER),
        ("Latency at equal load", NOT_MEASURED),
    ]
    assert decisions(made.comparison(made.pairs(DEEP, SURE)))[0].answer == NOT_MEASURED


def test_a_longer_tail_is_reported_beside_the_gain():
    runs = [attrs.evolve(run, latency=attrs.evolve(run.latency, p99_us=run.latency.p99_us * (9 if run.side else 1)))
            for run in made.pairs(DEEP, SURE)]  # fmt: skip
    found = decision_of(runs)
    assert found.answer == FASTER
    assert found.lines[-1].startswith("Longer p99 at full speed: 3.0x (2.")
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
