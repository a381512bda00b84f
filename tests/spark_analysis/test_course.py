"""The page's charts over time: whole buckets of a run, and requests in the order of their release."""

import re

import pytest

from spark_analysis.inside_figures import ClientPoint, Inside, LaneRequest
from spark_analysis.report import course
from spark_analysis.tables import REQUEST_STAMPS
from tests.spark_analysis import made


def drawn(rates):
    """Return the number of points of the lines of a run with these rates in its buckets."""
    runs = made.pairs(made.load(), [1.0])
    points = (
        ClientPoint(runs[0].number, 50.0 * place, 50.0, 9, rate, 100.0, 200.0) for place, rate in enumerate(rates)
    )
    page = course.series(made.comparison(runs, inside=Inside(series=tuple(points))))
    return [path.count("L") + 1 for path in re.findall(r'd="(M[^"]*)"[^>]*class="line', page)]


def test_the_short_last_bucket_of_a_run_is_not_drawn():
    assert drawn([1000.0, 1000.0, 1000.0, 20.0]) == [3, 3], "rate and p99"


@pytest.mark.parametrize(
    ("released", "said"),
    [((5_000, 5_000, 6_000), "released in order"), ((5_000, 4_000, 6_000), "RELEASED OUT OF ORDER")],
)
def test_lanes_report_the_order_of_released_responses(released, said):
    """The order of completion and sending does not matter."""
    runs = made.pairs(made.load(), [1.0])

    def request(sequence, released_ns):
        stamps = {name: 1_000 * place for place, name in enumerate(REQUEST_STAMPS)}
        stamps |= {"completed_ns": 4_000 - sequence, "released_ns": released_ns, "sent_ns": 9_000 + sequence}
        of = {"run": runs[0].number, "connection": 0, "sequence": sequence, "queue": 0, "depth": 1, "commit": 0}
        return LaneRequest(**of, **stamps)

    requests = tuple(request(sequence, at) for sequence, at in enumerate(released))
    page = course.lanes(made.comparison(runs, inside=Inside(lanes=requests)))
    assert f"3 consecutive requests, one per row, {said}" in page
