"""Open loops compare latency at equal load, without figures for a side that did not keep the pace."""

import math

import pytest

from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.equal_load import equal_load_table
from pipeline_broker.measure.experiment.factors import Offer
from pipeline_broker.measure.experiment.results import Results
from pipeline_broker.measure.experiment.runs import RAW, REPLAY, Cell, Run, Side
from pipeline_broker.measure.experiment.table import report_text, table
from pipeline_broker.traces.client_rows import ClientRow

MODES = ("classic", "pipelined")
HALF = Cell(RAW, 64, 16, offer=Offer(share=0.5, of="classic"))
MS = 1_000_000


def closed_rows(rate_per_s, count=100):
    gap = round(1e9 / rate_per_s)
    return [ClientRow(0, number, number, None, number * gap, (number + 1) * gap, 0, True) for number in range(count)]


def open_rows(wait_ms, count=1000, gap_ms=1.0, unanswered=0, growth=0.0):
    """Return requests with equal gaps and constant or growing latency; the last ones are never answered."""
    rows = []
    for number in range(count):
        due_ns = round(number * gap_ms * MS)
        wait_ns = round(wait_ms * MS + growth * due_ns)
        answered_ns = None if number >= count - unanswered else due_ns + wait_ns
        rows.append(ClientRow(0, number, number, due_ns, due_ns, answered_ns, 0, True))
    return rows


def add(results, cell, side, rows, round_number=1, *, experiment="ladder", mode=None, traced=False):
    results.add(Run(0, round_number, traced, Side(mode or results.modes[side], side), cell, experiment), rows)


def results_with(*waits_ms, cell=HALF):
    results = Results(MODES)
    for number, pair in enumerate(waits_ms, start=1):
        for side, wait_ms in enumerate(pair):
            add(results, cell, side, open_rows(wait_ms), number)
    return results


def test_a_capacity_is_the_median_rate_of_the_closed_loop_of_this_load():
    results = Results(MODES)
    closed = Cell(RAW, 64, 16)
    for number, rate in enumerate((1000, 5000, 2000), start=1):
        add(results, closed, 0, closed_rows(rate), number, experiment="grid")
        add(results, closed, 1, closed_rows(10 * rate), number, experiment="grid")
        add(results, closed, 0, closed_rows(7), number, experiment="ablation")
        add(results, closed, 1, closed_rows(8), number, experiment="ablation", mode="both")
    add(results, closed, 0, closed_rows(9), 4, experiment="grid", traced=True)
    for other in (Cell(RAW, 64, 1), Cell(RAW, 64, 16, 2.0), Cell(RAW, 64, 16, is_self=True), HALF):
        add(results, other, 0, closed_rows(11), experiment="grid")
    assert results.capacity(HALF, "classic") == pytest.approx(2000)
    assert results.capacity(HALF, "pipelined") == pytest.approx(20_000)
    assert results.offered_per_s(HALF) == pytest.approx(1000)
    assert results.offered_per_s(Cell(RAW, 64, 16, offer=Offer(share=0.8, of="pipelined"))) == pytest.approx(16_000)
    assert results.offered_per_s(Cell(RAW, 64, 16, offer=Offer(123.0))) == 123.0
    assert results.offered_per_s(closed) is None


def test_a_share_of_an_unmeasured_capacity_is_refused():
    with pytest.raises(ExperimentError, match="a share of classic's capacity with 16 x 64, which was not measured"):
        Results(MODES).offered_per_s(HALF)


def test_latencies_are_compared_round_by_round():
    results = results_with((10, 5), (20, 8), (40, 12))
    logs = [math.log(b / a) for a, b in ((10, 5), (20, 8), (40, 12))]
    wait = results.wait(HALF, 0.5)
    assert math.log(wait.ratio) == pytest.approx(sum(logs) / 3, abs=1e-4)
    assert wait.low < wait.ratio < wait.high
    assert results.speedup(HALF) is None, "the rate is given"
    assert equal_load_table(results).splitlines()[-1].count("0.39x (") == 2, "p50 and p99"


@pytest.mark.parametrize(
    "behind",
    [
        open_rows(5.0, growth=0.1),
        open_rows(5.0, unanswered=50),
        open_rows(1.0, unanswered=1000),
    ],
    ids=["waits grow", "some never answered", "none answered"],
)
def test_a_side_that_was_behind_is_named_and_its_latencies_are_not_shown(behind):
    results = results_with((10, 5), (10, 5))
    assert results.side(HALF, 0).kept_pace
    for number in (3, 4, 5):
        add(results, HALF, 0, behind, number)
        add(results, HALF, 1, open_rows(5), number)
    assert not results.side(HALF, 0).kept_pace
    assert results.side(HALF, 1).kept_pace
    assert results.wait(HALF, 0.5) is None
    _, classic, pipelined = equal_load_table(results).splitlines()
    assert classic.split()[-3:] == ["behind", "behind", "behind"]
    assert pipelined.split()[-2:] == ["5.00", "5.00"]


def test_a_broker_with_constant_latency_keeps_the_pace_and_so_does_every_closed_loop():
    results = results_with((300, 5), (300, 5))
    assert results.side(HALF, 0).kept_pace
    closed = Cell(RAW, 64, 16)
    add(results, closed, 0, closed_rows(10), experiment="grid")
    add(results, closed, 1, closed_rows(10), experiment="grid")
    assert results.side(closed, 0).kept_pace


def test_the_table_is_sorted_by_pace_and_lists_other_brokers_and_the_replay():
    fast = Cell(RAW, 64, 16, offer=Offer(2000.0))
    results = Results(MODES, ("kafka",))
    for number in (1, 2, 3):
        for cell, gap_ms in ((fast, 0.5), (HALF, 1.0), (Cell(REPLAY, 0, 4), 2.0)):
            for side in (0, 1):
                add(results, cell, side, open_rows(10 - 5 * side, gap_ms=gap_ms), number)
        add(results, HALF, 2, open_rows(7), number, mode="kafka")
    lines = equal_load_table(results).splitlines()[1:]
    assert [line.split()[0] for line in lines] == [
        "raw",
        "pipelined",
        "kafka",
        "raw",
        "pipelined",
        "replay",
        "pipelined",
    ]
    assert next(line for line in lines if "rate=2000" in line) == lines[3]
    assert "0.50x (0.50 to 0.50)" in lines[1]
    assert "replay" not in table(results)
    assert "rate=" not in table(results)
    assert equal_load_table(results) in report_text(results)
    assert "equal load, an open loop" in report_text(results)


def test_without_an_open_loop_the_table_is_left_out():
    results = Results(MODES)
    add(results, Cell(RAW, 64, 16), 0, closed_rows(10), experiment="grid")
    assert equal_load_table(results) == ""
    assert "equal load" not in report_text(results)
