"""Every planted violation of order is found by the right audit, and lost rows make an audit incomplete, not wrong."""

from __future__ import annotations

import pytest

from spark_analysis import load_run, order_violations, ordering_audit
from spark_analysis.convert import convert

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]

STAGES = dict.fromkeys(
    ("RequestQueue", "Local", "CommitWait", "Remote", "ResponseOrderWait", "ResponseQueue", "ResponseSend"), 10
)
ROWS = 50


def exchange(rows, name, first, second):
    rows[first][name], rows[second][name] = rows[second][name], rows[first][name]


def nothing(run):
    pass


def release_out_of_order(run):
    exchange(run.rows["requests"], "released_ns", 10, 11)


def release_wrongly_after_one_that_never_was(run):
    run.rows["requests"][11]["released_ns"] = None
    run.rows["requests"][12]["released_ns"] = run.rows["requests"][9]["released_ns"]


def repeat_a_sequence(run):
    rows = run.rows["requests"]
    for row in rows[20:ROWS]:
        row["sequence"] -= 1
    rows[20]["released_ns"] = rows[19]["released_ns"]


def leave_three_sequences_out(run):
    del run.rows["requests"][30:33]


def append_out_of_order(run):
    exchange(run.rows["appends"], "base_offset", 5, 7)
    exchange(run.rows["appends"], "last_offset", 5, 7)


def overlap_offsets(run):
    run.rows["appends"][7]["last_offset"] += 4  # into the next batch of the same partition


def answer_out_of_order(run):
    exchange(run.rows["client"], "correlation_id", 40, 41)


def answer_twice_out_of_order(run):
    exchange(run.rows["client"], "correlation_id", 4, 5)
    exchange(run.rows["client"], "correlation_id", 40, 41)


def leave_two_answers_out(run):
    del run.rows["client"][12:14]


CASES = [
    (nothing, 0, 0),
    (release_out_of_order, 1, 0),
    (release_wrongly_after_one_that_never_was, 1, 0),
    (repeat_a_sequence, 1, 0),
    (leave_three_sequences_out, 3, 0),
    (append_out_of_order, 1, 0),
    (overlap_offsets, 1, 0),
    (answer_out_of_order, 0, 1),
    (answer_twice_out_of_order, 0, 2),
    (leave_two_answers_out, 0, 2),
]


@pytest.fixture(scope="module")
def directory(synthetic, spark, tmp_path_factory):
    """One traced run per case, and a second one with lost rows; each with its own in-flight depth."""
    directory = tmp_path_factory.mktemp("audit")
    for lost in (0, 1):
        for place, (damage, _, _) in enumerate(CASES):
            number = 1 + place + lost * len(CASES)
            columns = {"traced": True, "mode": "pipelined", "side": 1, "in_flight": number}
            run = synthetic.RawRun(directory / "raw", number, connections=2, **columns)
            for connection in (0, 1):
                for sequence in range(ROWS):
                    at_ns = synthetic.START_NS + sequence * 1_000_000
                    synthetic.traced_request(run, connection, sequence, at_ns, STAGES)
                    synthetic.append(run, connection, sequence, 2 * sequence + connection, partition=sequence % 2)
                    run.answer(at_ns, at_ns + 500_000, sequence, connection=connection)
            damage(run)
            run.lost = {"requests": lost}
            run.write()
    convert(directory, spark)
    return directory


@pytest.fixture(scope="module")
def found(directory, spark):
    return {(row["run"], row["audit"]): row for row in ordering_audit(load_run(directory, spark)).collect()}


@pytest.fixture(scope="module")
def listed(directory, spark):
    return order_violations(load_run(directory, spark)).collect()


@pytest.mark.parametrize("place", range(len(CASES)), ids=[damage.__name__ for damage, _, _ in CASES])
def test_each_violation_is_found_once_by_its_audit(place, found):
    damage, broker, client = CASES[place]
    assert found[place + 1, "broker"]["violations"] == broker
    assert found[place + 1, "client"]["violations"] == client
    assert found[place + 1, "broker"]["complete"]
    missing = {leave_three_sequences_out: 3}.get(damage, 0)
    assert found[place + 1, "broker"]["audited"] == 2 * ROWS - missing


@pytest.mark.parametrize("place", range(len(CASES)), ids=[damage.__name__ for damage, _, _ in CASES])
def test_lost_rows_excuse_gaps_but_not_wrong_order(place, found):
    damage, broker, client = CASES[place]
    gaps = damage in {leave_three_sequences_out, leave_two_answers_out}
    number = 1 + place + len(CASES)
    assert found[number, "broker"]["violations"] == (0 if gaps else broker)
    assert found[number, "client"]["violations"] == (0 if gaps else client)
    assert not found[number, "broker"]["complete"]
    assert not found[number, "client"]["complete"]


@pytest.mark.parametrize("chunk_rows", [1, 7])
def test_the_chunk_size_does_not_change_the_result(chunk_rows, directory, spark, found, monkeypatch):
    """Every planted violation also lies between two chunks when a chunk has one row."""
    monkeypatch.setattr("spark_analysis.audit.CHUNK_ROWS", chunk_rows)
    rows = ordering_audit(load_run(directory, spark)).collect()
    assert {(row["run"], row["audit"]): row for row in rows} == found


@pytest.mark.parametrize("place", range(len(CASES)), ids=[damage.__name__ for damage, _, _ in CASES])
def test_listed_violations_add_up_to_the_counted_ones(place, found, listed):
    for number in (place + 1, place + 1 + len(CASES)):
        for witness in ("broker", "client"):
            mine = [row["violations"] for row in listed if (row["run"], row["audit"]) == (number, witness)]
            assert sum(mine) == found[number, witness]["violations"]


def test_a_listed_violation_has_its_place(listed):
    number = 1 + [damage for damage, _, _ in CASES].index(append_out_of_order)
    (row,) = [row for row in listed if row["run"] == number]
    place = (
        row["rule"],
        row["connection"],
        row["topic"],
        row["partition"],
        row["sequence"],
        row["before"],
        row["found"],
    )
    assert place == ("log", 0, "events", 1, 7, 14, 10)
