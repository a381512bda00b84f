"""The ordering audit finds the `broken` preset, names each place, and counts the listed violations; the real order is
clean.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from spark_analysis import load_run, order_violations, ordering_audit, request_lanes
from spark_analysis.cells import Cell, Load, Run
from spark_analysis.convert import convert
from spark_analysis.figures import Figures
from spark_analysis.inside_figures import Inside, LaneRequest, Violation
from spark_analysis.report import course, inside
from spark_analysis.summary import Comparison
from stages.response_order import ResponseOrder
from tests.spark_analysis.broken_trace import CONNECTIONS, REQUESTS, describe, write_run
from tests.stages.broken import BrokenResponseOrder

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]
REAL, BROKEN = 1, 2


def descents(values):
    return [(before, value) for before, value in pairwise(values) if value <= before]


@pytest.fixture(scope="module")
def traced(spark, tmp_path_factory):
    """A run with the real order and one with the broken order, and the ids that their clients received."""
    directory = tmp_path_factory.mktemp("broken")
    received = {}
    for number, order in ((REAL, ResponseOrder), (BROKEN, BrokenResponseOrder)):
        folder = directory / f"raw/run-{number:05}"
        folder.mkdir(parents=True)
        received[number] = write_run(folder, order)
        describe(folder, number, in_flight=REQUESTS * number)
    convert(directory, spark)
    return directory, received


@pytest.fixture(scope="module")
def rows(traced, spark):
    return order_violations(load_run(traced[0], spark)).collect()


def test_the_real_order_has_no_violation_and_clients_saw_none(traced, rows):
    assert traced[1][REAL] == [list(range(REQUESTS))] * CONNECTIONS
    assert [row for row in rows if row["run"] == REAL] == []


def test_both_audits_find_every_violation_of_the_broken_preset(traced, rows):
    received = traced[1][BROKEN]
    wanted = [descent for ids in received for descent in descents(ids)]
    assert wanted
    found = [(row["before"], row["found"]) for row in rows if row["rule"] == "received"]
    assert sorted(found) == sorted(wanted)
    stamped = [row for row in rows if row["rule"] == "released"]
    # A request that is answered at once leaves before the previous one, which waits for its commit.
    assert {row["sequence"] % 3 for row in stamped} == {1}
    assert len(stamped) == CONNECTIONS * REQUESTS // 3
    assert all(row["before"] > row["found"] for row in stamped)
    assert {row["rule"] for row in rows} == {"received", "released"}


def test_the_list_and_the_audit_count_the_same(traced, rows, spark):
    for audit in ordering_audit(load_run(traced[0], spark)).collect():
        mine = [row for row in rows if (row["run"], row["audit"]) == (audit["run"], audit["audit"])]
        assert sum(row["violations"] for row in mine) == audit["violations"]
        assert audit["audited"] == REQUESTS * CONNECTIONS


def test_the_page_names_the_places_and_draws_the_lanes_that_step_back(traced, rows, spark):
    run = load_run(traced[0], spark)
    numbers = {REAL: "classic", BROKEN: "pipelined"}
    load = Load("raw", CONNECTIONS, REQUESTS, 0.0)
    runs = [
        Run(number, 0, True, side, Cell(mode, load), "always", {}, {}, None, 0)
        for side, (number, mode) in enumerate(numbers.items())
    ]
    found = {
        "lanes": tuple(LaneRequest(**row.asDict()) for row in request_lanes(run).orderBy("run", "sequence").collect()),
        "violations": tuple(Violation(**row.asDict()) for row in rows),
    }
    comparison = Comparison(Figures(tuple(runs), {}, {}, (), {}, {}, (), inside=Inside(**found)))
    audit = inside.audit(comparison)
    assert "Where order was broken" in audit
    assert audit.count("released") == audit.count("<td>released</td>") + 1  # once in the explanation
    assert audit.count("<td>released</td>") + audit.count("<td>received</td>") == len(rows)
    lanes = course.lanes(comparison)
    assert lanes.count("released in order") == 1
    assert lanes.count("RELEASED OUT OF ORDER") == 1
