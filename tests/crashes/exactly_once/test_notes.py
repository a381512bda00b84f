"""What copiers wrote down becomes a history in which each thing that must not be is found."""

import json

import pytest

from tests.crashes.exactly_once.copier import INPUT, OUTPUT
from tests.crashes.exactly_once.notes import operations, read_notes, written
from tests.tools.history_checker import FAILED, OK, POLL, UNKNOWN, Operation, Poll, anomalies, forbidden

BEGIN = {"begin": 1, "rebalanced": True, "polled": [[0, 0, "0"], [0, 1, "4"]], "sent": [[0, "0 a 1"], [0, "4 a 1"]]}
COMMITTING = {"committing": 1}
COMMITTED = {"committed": 1, "offsets": [0, 1]}
ABORTED = {"aborted": 1, "reason": "refused"}
NEXT = {"begin": 2, "rebalanced": False, "polled": [[0, 2, "8"]], "sent": [[0, "8 a 2"]]}
INPUT_READ = [(0, "0"), (1, "4"), (2, "8")]


@pytest.fixture
def note(tmp_path):
    """Writes lines as a copier does; gives what is read of them."""

    def write(*lines, torn=b""):
        path = tmp_path / "notes"
        path.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines) + torn)
        return read_notes(path)

    return write


def found(attempts, output):
    """The names of what must not be, when the output was read as given."""
    history = [written(0, value, offset) for offset, value in INPUT_READ]
    history += operations("a", OUTPUT, attempts)
    history += [Operation("reader", POLL, (Poll({(INPUT, 0): INPUT_READ, (OUTPUT, 0): output}),))]
    return {anomaly.name for anomaly in forbidden(anomalies(history))}


@pytest.mark.parametrize(
    ("lines", "fate"),
    [
        ([BEGIN], FAILED),
        ([BEGIN, ABORTED], FAILED),
        ([BEGIN, COMMITTING], UNKNOWN),
        ([BEGIN, COMMITTING, ABORTED], FAILED),
        ([BEGIN, COMMITTING, COMMITTED], OK),
    ],
)
def test_the_fate_of_a_transaction_is_what_its_copier_was_told_last(note, lines, fate):
    (attempt,) = note(*lines)
    assert attempt.fate == fate


def test_a_line_that_was_being_written_when_the_copier_was_killed_does_not_count(note):
    assert [attempt.fate for attempt in note(BEGIN, torn=b'{"committ')] == [FAILED]


def test_a_copier_that_wrote_nothing_did_nothing(tmp_path):
    assert read_notes(tmp_path / "notes") == []


def test_a_committed_transaction_that_is_there_as_told_is_well(note):
    attempts = note(BEGIN, COMMITTING, COMMITTED)
    assert found(attempts, [(0, "0 a 1"), (1, "4 a 1")]) == set()


@pytest.mark.parametrize(
    ("lines", "output", "anomaly"),
    [
        ([BEGIN], [(0, "0 a 1"), (1, "4 a 1")], "G1a"),
        ([BEGIN, ABORTED], [(1, "4 a 1")], "G1a"),
        ([BEGIN, COMMITTING, COMMITTED], [], "unseen"),
        ([BEGIN, COMMITTING, COMMITTED], [(0, "0 a 1"), (1, "4 a 1"), (2, "4 a 1")], "duplicate"),
        ([BEGIN, COMMITTING, COMMITTED], [(0, "4 a 1"), (1, "0 a 1")], "inconsistent-offsets"),
    ],
)
def test_what_must_not_be_is_found(note, lines, output, anomaly):
    assert anomaly in found(note(*lines), output)


def test_a_poll_that_jumps_over_records_is_found_unless_partitions_came_or_went(note):
    first = {**BEGIN, "polled": [[0, 0, "0"]], "sent": [[0, "0 a 1"]]}
    ended = {"committed": 1, "offsets": [0]}, {"committed": 2, "offsets": [1]}
    output = [(0, "0 a 1"), (1, "8 a 2")]
    assert "poll-skip" in found(note(first, COMMITTING, ended[0], NEXT, {"committing": 2}, ended[1]), output)
    moved = {**NEXT, "rebalanced": True}
    assert found(note(first, COMMITTING, ended[0], moved, {"committing": 2}, ended[1]), output) == set()
