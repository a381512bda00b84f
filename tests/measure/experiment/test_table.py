"""Speed-ups have the interval of paired rounds, and the table shows the figures of the rows."""

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.experiment.factors import RequestFactors
from pipeline_broker.measure.experiment.intervals import speedup, t_quantile
from pipeline_broker.measure.experiment.results import Results
from pipeline_broker.measure.experiment.runs import RAW, Cell, Run, Side
from pipeline_broker.measure.experiment.table import report_text, table
from pipeline_broker.traces.client_rows import ClientRow

rates = st.floats(0.1, 1e6)


@pytest.mark.parametrize(
    ("freedom", "quantile"), [(1, 12.706), (2, 4.303), (4, 2.776), (6, 2.447), (30, 2.042), (40, 2.021), (1000, 1.962)]
)
def test_known_quantiles(freedom, quantile):
    assert t_quantile(freedom) == pytest.approx(quantile, abs=1e-3)


@given(st.lists(st.tuples(rates, rates), min_size=3, max_size=8))
def test_the_interval_is_that_of_the_logarithms(pairs):
    found = speedup(pairs)
    logs = [math.log(b) - math.log(a) for a, b in pairs]
    assert math.log(found.ratio) == pytest.approx(statistics.fmean(logs), abs=1e-9)
    half = t_quantile(len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    assert math.log(found.high / found.low) / 2 == pytest.approx(half, abs=1e-6)


@given(st.lists(st.tuples(rates, rates), min_size=3, max_size=8))
def test_swapping_the_sides_inverts_the_speedup(pairs):
    there, back = speedup(pairs), speedup([(b, a) for a, b in pairs])
    assert there.ratio * back.ratio == pytest.approx(1)
    assert there.low * back.high == pytest.approx(1)


def test_fewer_than_three_rounds_have_no_interval_and_no_round_no_speedup():
    assert speedup([(2.0, 6.0)]).ratio == pytest.approx(3)
    assert speedup([(2.0, 6.0)]).low is None
    assert speedup([(2.0, 6.0), (2.0, 6.0)]).low is None
    assert speedup([]) is None
    assert speedup([(0.0, 6.0)]) is None


def rows(count, rate, ids=None):
    step_ns = round(1e9 / rate)
    return [
        ClientRow(0, index, number, None, index * step_ns, (index + 1) * step_ns, 0, True)
        for index, number in enumerate(ids or range(count))
    ]


def results_of(*cells, modes=("classic", "pipelined"), others=()):
    results = Results(modes, others)
    for cell, rates_by_side in cells:
        for side, mode in enumerate((*modes, *others)):
            for round_number, rate in enumerate(rates_by_side[side], start=1):
                results.add(Run(0, round_number, False, Side(mode, side), cell, "grid"), rows(100, rate))
    return results


RAW_CELL = Cell(RAW, 64, 1)


def test_rates_are_requests_over_the_sum_of_the_runs_times():
    results = results_of((RAW_CELL, ([100, 300], [1000, 3100])))
    side = results.side(RAW_CELL, 0)
    assert side.requests_per_s == pytest.approx(200 / (100 / 100 + 100 / 300), rel=1e-6)
    assert results.speedup(RAW_CELL).ratio == pytest.approx(math.sqrt(10 * 31 / 3), rel=1e-6)
    assert side.percentile_ms(0.5) is not None
    assert side.percentile_ms(0.99) is None


def test_the_sample_of_a_round_is_the_common_rate_of_its_runs_as_in_the_report():
    results = Results(("classic", "pipelined"))
    for side, rates in enumerate(((100, 300), (200, 200))):
        for rate in rates:
            results.add(Run(0, 1, False, Side(results.modes[side], side), RAW_CELL, "grid"), rows(100, rate))
    assert results.speedup(RAW_CELL).ratio == pytest.approx(200 / (200 / (100 / 100 + 100 / 300)), rel=1e-6)


def test_traced_runs_count_only_for_order_violations():
    results = results_of((RAW_CELL, ([100], [1000])))
    before = results.side(RAW_CELL, 1).requests_per_s
    traced = Run(9, 2, True, Side("pipelined", 1), RAW_CELL, "grid")
    results.add(traced, rows(4, 1, ids=[0, 2, 1, 3]))
    assert results.side(RAW_CELL, 1).requests_per_s == before
    assert results.order_violations == 1
    assert "Answers out of order: 1." in report_text(results)


def test_the_table_has_a_line_per_side():
    lines = table(results_of((RAW_CELL, ([100, 101, 102], [1500, 1510, 1520])))).splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["client", "raw"]
    assert "pipelined" in lines[2]
    assert "x (" in lines[2]
    assert len(lines) == 3


def test_a_self_comparison_has_lines():
    results = results_of((RAW_CELL, ([100, 101, 99], [1500, 1510, 1490])))
    itself = Cell(RAW, 64, 1, is_self=True)
    for number in (1, 2, 3):
        for side in (0, 1):
            results.add(Run(0, number, False, Side("pipelined", side), itself, "self"), rows(100, 1000 + number * side))
    assert results.compared() == [RAW_CELL]
    assert results.selves() == [itself]
    (line, below) = [
        line for line in table(results).splitlines() if " self " in line or line.endswith("1.00x (1.00 to 1.00)")
    ]
    assert line.split()[:5] == ["raw", "1", "x", "64", "self"]
    assert below.split()[0] == "pipelined"


def test_a_mode_compared_with_itself_has_two_sides():
    results = results_of((RAW_CELL, ([100, 100], [200, 200])), modes=("classic", "classic"))
    assert results.speedup(RAW_CELL).ratio == pytest.approx(2)
    assert results.compared() == [RAW_CELL]


def test_other_brokers_have_lines_of_their_own():
    results = results_of((RAW_CELL, ([100, 110], [1000, 1010], [500, 510])), others=("kafka",))
    assert results.speedup(RAW_CELL).ratio == pytest.approx(9.58, rel=1e-3)
    assert results.over_other(RAW_CELL, "kafka").ratio == pytest.approx(1.99, rel=1e-3)
    assert results.ablation() == []
    (line,) = [line for line in table(results).splitlines() if " kafka " in line]
    assert "pipelined over it 1.99x" in line


def ablation_run(mode, number, rate):
    side = Side(mode, 0 if mode == "classic" else 1)
    return Run(0, number, False, side, RAW_CELL, "ablation"), rows(100, rate)


def test_an_axis_is_over_classic_of_the_same_rounds_of_the_ablation():
    results = results_of((RAW_CELL, ([100, 100], [1000, 1000])))
    for number in (1, 2):
        for mode, rate in (("classic", 200), ("own-queues", 200), ("both", 400), ("pipelined", 600)):
            results.add(*ablation_run(mode, number, rate))
    over = {mode: gain and round(gain.ratio, 3) for _, mode, _, gain in results.ablation()}
    assert over == {"classic": None, "own-queues": 1.0, "both": 2.0, "pipelined": 3.0}
    assert results.speedup(RAW_CELL).ratio == pytest.approx(10), "rounds of the ablation are not paired with others"
    assert results.side(RAW_CELL, 0).requests_per_s == pytest.approx(400 / (2 + 1), rel=1e-6), "but count in the cell"
    text = report_text(results)
    assert "Queues isolate connections" in text
    (line,) = [line for line in text.splitlines() if " own-queues " in line and "over classic 1.00x" in line]
    assert "200" in line


def test_an_ablation_without_classic_uses_that_of_the_comparison():
    results = results_of((RAW_CELL, ([100, 100], [1000, 1000])))
    for number in (1, 2):
        results.add(*ablation_run("both", number, 500))
    assert [round(gain.ratio, 3) for _, _, _, gain in results.ablation()] == [5.0]
    assert report_text(results_of((RAW_CELL, ([100], [1000])))).count("isolation") == 0


def test_a_cell_of_a_sweep_is_named_with_its_factors():
    cell = Cell(RAW, 64, 1, requests=RequestFactors(batch_records=10))
    assert "1 x 64 batch=10" in table(results_of((cell, ([100, 101, 102], [1500, 1510, 1520])), (RAW_CELL, ([1], [1]))))
