"""The light of a run is that of its worst measure; an unknown measure keeps a run from being good."""

from __future__ import annotations

import json
import random
import re
import sys

import attrs
import pytest

from spark_analysis.analyse import write
from spark_analysis.report.page import render
from spark_analysis.run_quality import Light, run_quality
from spark_analysis.summary_json import summary
from tests.spark_analysis import made

QUIET = {"cores": 2, "others_share": 0.01, "steal_share": 0.0}
EQUAL = (1.0, 1.01, 0.99, 1.0, 1.01)


def experiment(machine=QUIET, spread=0.01, equal=EQUAL, gain=3.0, **columns):
    drawn = random.Random(1)
    runs = [run for number in range(4) for run in made.pairs(made.load(number), [gain] * 5, drawn, spread, **columns)]
    if equal:
        columns = {"mode": "pipelined", "settings": {"experiment": "self"}}
        runs += made.pairs(made.load(1, variant="self"), equal, **columns)
    return made.comparison([attrs.evolve(run, machine=machine) for run in runs])


def quality(**columns):
    return run_quality(experiment(**columns))


def test_a_quiet_machine_with_narrow_intervals_and_equal_sides_is_good():
    assert quality().light is Light.GOOD


@pytest.mark.parametrize(
    ("changed", "light", "reason"),
    [
        ({"spread": 0.4}, Light.FAIR, "the upper end of the median interval is "),
        ({"spread": 0.12}, Light.FAIR, "the upper end of the median interval is "),
        ({"spread": 0.4, "gain": 1.0}, Light.POOR, "no claim is decided"),
        ({"client_cpu_share": 0.95}, Light.POOR, "with both sides the client was at the limit of a core under 4 of 4"),
        ({"client_cpu_share": None}, Light.FAIR, "the client's processor time is unknown"),
        ({"machine": {**QUIET, "others_share": 0.1}}, Light.FAIR, "other processes used 0.20 of 2 cores on average"),
        ({"machine": {**QUIET, "others_share": 0.5}}, Light.POOR, "other processes used 1.00 of 2 cores on average"),
        ({"machine": {"steal_share": 0.0}}, Light.FAIR, "the time that other processes used is unknown"),
        ({"machine": {**QUIET, "steal_share": 0.03}}, Light.FAIR, "a hypervisor gave other machines 0.06 of 2 cores"),
        ({"machine": {**QUIET, "steal_share": 0.2}}, Light.POOR, "a hypervisor gave other machines 0.40 of 2 cores"),
        (
            {"machine": {**QUIET, "steal_share": None}},
            Light.FAIR,
            "the time that a hypervisor gave to other machines is unknown",
        ),
        ({"equal": ()}, Light.FAIR, "No mode was compared with itself (A/A)"),
        ({"equal": (1.0, 1.1, 0.95, 1.05, 0.92)}, Light.FAIR, "pipelined against itself on this machine: "),
        (
            {"equal": (1.2, 1.21, 1.22, 1.2, 1.19)},
            Light.POOR,
            "two equal brokers differ: pipelined against itself on this machine: throughput 1.20x",
        ),
    ],
)
def test_the_light_is_the_worst_measure_with_its_reason(changed, light, reason):
    found = quality(**changed)
    assert found.light is light
    assert any(said.startswith(reason) for said in found.reasons)


@pytest.mark.parametrize(
    ("changed", "name", "light"),
    [
        ({"others_share": 0.05}, "others", Light.GOOD),
        ({"others_share": 0.051}, "others", Light.FAIR),
        ({"others_share": 0.25}, "others", Light.FAIR),
        ({"others_share": 0.251}, "others", Light.POOR),
        ({"others_share": True}, "others", Light.FAIR),
        ({"others_share": None}, "others", Light.FAIR),
        ({"steal_share": 0.01}, "steal", Light.GOOD),
        ({"steal_share": 0.011}, "steal", Light.FAIR),
        ({"steal_share": 0.05}, "steal", Light.FAIR),
        ({"steal_share": 0.051}, "steal", Light.POOR),
        ({"steal_share": "0.5"}, "steal", Light.FAIR),
    ],
)
def test_a_measure_follows_its_bounds(changed, name, light):
    found = {measure.name: measure for measure in quality(machine={**QUIET, **changed}).measures}
    assert found[name].light is light


def test_intervals_and_steal_report_their_median_and_their_worst():
    found = {measure.name: measure.finding for measure in quality(spread=0.4).measures}
    assert found["intervals"].endswith("its lower end; the size of 4 of 4 ratios is uncertain")
    assert "is uncertain" not in {measure.name: measure.finding for measure in quality().measures}["intervals"]
    runs = made.pairs(made.load(1), [3.0, 3.1])
    shares = (0.0, 0.02, 0.1, 0.0)
    runs = [attrs.evolve(run, machine={"steal_share": share}) for run, share in zip(runs, shares, strict=True)]
    said = {measure.name: measure.finding for measure in run_quality(made.comparison(runs)).measures}["steal"]
    whole = "of the time of all cores"
    assert said == f"a hypervisor gave other machines 3.0% {whole} on average, and at most 10.0% {whole} in a run"


def test_a_client_at_the_limit_with_the_faster_side_only_leaves_claims_sound():
    drawn = random.Random(1)
    runs = [run for number in range(2) for run in made.pairs(made.load(number), [3.0] * 5, drawn, 0.01)]
    for bound, light in ((0, Light.GOOD), (1, Light.FAIR), (2, Light.POOR)):
        busy = [
            attrs.evolve(run, client_cpu_share=0.95 if run.side or run.cell.load.connections < bound else 0.5)
            for run in runs
        ]
        found = {measure.name: measure.light for measure in run_quality(made.comparison(busy)).measures}
        assert found["client"] is light


def test_a_claim_has_its_bound_in_large_type_and_its_interval_in_a_line():
    comparison = experiment(spread=0.4)
    page = render(comparison, run_quality(comparison), "out")
    box = page[page.index("<h3>native client</h3>") :]
    assert re.search(r"<b>at least [\d.]+x</b>", box[:400])
    assert re.search(r"4 loads: (?:least )?[\d.]+x <small>\([\d.]+x to [\d.]+x\)</small> for \d connection", box[:600])


def test_one_round_of_a_mode_against_itself_is_at_most_fair():
    found = {measure.name: measure for measure in quality(equal=(1.0,)).measures}
    assert found["A/A"].light is Light.FAIR
    assert not found["A/A"].finding.startswith("No mode was compared with itself")


def test_the_terminal_shows_a_warning_for_a_poor_run():
    assert quality(machine={**QUIET, "others_share": 0.5}).sentence == (
        "Poor run: do not base a decision on it. Other processes used 1.00 of 2 cores on average, and at most "
        "1.00 of 2 cores in a run."
    )


def test_the_page_of_a_poor_run_makes_no_claims():
    pages = {}
    for light, share in ((Light.GOOD, 0.01), (Light.POOR, 0.5)):
        comparison = experiment(machine={**QUIET, "others_share": share})
        found = run_quality(comparison)
        assert found.light is light
        pages[light] = render(comparison, found, "out")
    good, poor = pages[Light.GOOD], pages[Light.POOR]
    assert '<div class="tile yes"><h3>native client</h3><p class="answer">Faster</p>' in good
    assert '<div class="tile open"><h3>native client</h3><p class="answer">Not decided: poor run</p></div>' in poor
    for claim in ("at least ", "<td>faster</td>", "More requests under", 'id="unpaying"'):
        assert (claim in good, claim in poor) == (True, False)
    assert "<td>not decided: poor run</td>" in poor
    assert "All ratios are grey, because a poor run proves nothing." in poor
    assert '<body class="poor-run">' in poor


def test_the_summary_of_a_poor_run_makes_no_claims():
    comparison = experiment(machine={**QUIET, "others_share": 0.5})
    found = summary(comparison, run_quality(comparison))
    assert found["verdict"].startswith("Nothing is decided, because the run is poor.\npipelined against itself")
    assert {"subject": "native client", "answer": "Not decided: poor run", "lines": []} in found["decisions"]


def test_page_summary_and_terminal_show_the_same_light_computed_once(monkeypatch, tmp_path):
    computed = []
    module = sys.modules[run_quality.__module__]
    monkeypatch.setattr(module, "_steal", lambda comparison, true=module._steal: computed.append(1) or true(comparison))
    comparison = experiment(machine={**QUIET, "others_share": 0.5})
    told = write(tmp_path, comparison).splitlines()[-1]
    assert told.startswith("Poor run: do not base a decision on it. Other processes used 1.00 of")
    assert json.loads((tmp_path / "summary.json").read_text())["quality"]["light"] == "poor"
    assert "Poor run: do not base a decision on it" in (tmp_path / "report.html").read_text()
    assert len(computed) == 1


def test_runs_of_another_broker_do_not_count():
    """The user started it, so its time is that of another process."""
    runs = made.pairs(made.load(1), [3.0, 3.1, 3.0])
    other = attrs.evolve(runs[0], number=99, side=2, machine={**QUIET, "others_share": 0.9})
    runs = [*(attrs.evolve(run, machine=QUIET) for run in runs), other]
    found = run_quality(made.comparison(runs))
    assert {measure.name: measure.light for measure in found.measures}["others"] is Light.GOOD


def test_one_round_is_a_poor_run():
    found = run_quality(made.comparison(made.pairs(made.load(1), [3.0])))
    assert found.light is Light.POOR
    assert found.reasons == ["no load has an interval, which needs three rounds of both sides"]
