"""The flow sections of the page: how often Little's law holds, and which run a drawing shows."""

from spark_analysis.inside_figures import Flow, Imbalance, Inside
from spark_analysis.report.flow import flow, shards
from tests.spark_analysis import made


def told(run, stage, expected, measured):
    return Flow(run.number, stage, 100, 1e6, 100.0, 10.0, expected, measured, measured - expected)


def test_littles_law_holds_if_both_values_agree_in_a_stage_with_requests():
    runs = made.pairs(made.load(), [1.0])
    of = runs[0]
    found = (
        told(of, "RequestQueue", 1.0, 1.1),
        told(of, "Local", 1.0, 0.5),
        told(of, "CommitWait", 0.05, 0.5),
        told(of, "ResponseSend", 0.05, 0.09),
    )
    said = flow(made.comparison(runs, inside=Inside(flow=found)))
    assert "in 1 of 3 stages with requests; the largest difference is 90.0%." in said
    idle = flow(made.comparison(runs, inside=Inside(flow=found[3:])))
    assert "so the law cannot be checked" in idle


def test_the_balance_of_a_cells_first_run_is_drawn_and_all_runs_are_in_the_table():
    runs = [*made.pairs(made.load(), [1.0]), *made.pairs(made.load(), [1.0])]
    first, later = runs[0], runs[2]
    found = tuple(
        Imbalance(run.number, 4, 2, 100, most, 0.5, 1, 9.0, 8.0) for run, most in ((first, 2.0), (later, 3.0))
    )
    said = shards(made.comparison(runs, inside=Inside(shards=found)))
    assert "2.0x the mean of 4 queues" in said
    assert "3.0x the mean of 4 queues" not in said
    assert f"run {first.number}" in said
    assert f"run {later.number}" in said
