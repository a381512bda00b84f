"""Each anomaly is found in a history that has it, and none in one that has not."""

import random

import attrs
import pytest

from tests.tables import each_row
from tests.tools.history_checker import (
    ASSIGN,
    FAILED,
    OK,
    POLL,
    SEND,
    SUBSCRIBE,
    TRANSACTION,
    UNKNOWN,
    Operation,
    Poll,
    Send,
    anomalies,
    forbidden,
)

SEEDS = range(100)
OPERATIONS = 300
KEYS = ("x", "y", "z")


def send(process, *sends, fate=OK):
    return Operation(process, SEND, tuple(Send(*one) for one in sends), fate)


def poll(process, fate=OK, rebalanced=(), **records):
    return Operation(process, POLL, (Poll(records),), fate, rebalanced=frozenset(rebalanced))


def transaction(process, *steps, fate=OK):
    return Operation(process, TRANSACTION, steps, fate)


def placed(kind, process, *keys):
    return Operation(process, kind, keys=frozenset(keys))


A, B, C = (0, "a"), (1, "b"), (2, "c")
THREE = [send("p", ("x", "a", 0)), send("p", ("x", "b", 1)), send("p", ("x", "c", 2))]
ALL = poll("reader", x=[A, B, C])


def names(history, **options):
    return {anomaly.name for anomaly in anomalies(history, **options)}


@pytest.mark.parametrize(
    "history",
    [
        [],
        [*THREE, ALL],
        [*THREE, poll("c", x=[A]), poll("c", x=[B, C])],
        [*THREE, poll("c", x=[A]), poll("c", x=[C], rebalanced="x"), ALL],
        [*THREE, ALL, placed(ASSIGN, "reader", "y"), placed(ASSIGN, "reader", "x"), poll("reader", x=[B])],
        [send("p", ("x", "a", 0)), send("p", ("x", "b"), fate=UNKNOWN), poll("c", x=[A])],
        [send("p", ("x", "a", 0)), send("p", ("x", "b"), fate=UNKNOWN), poll("c", x=[A, B])],
        [send("p", ("x", "a", 0)), send("p", ("x", "b"), fate=FAILED), poll("c", x=[A])],
        [send("p", ("x", "a", 0)), send("p", ("x", "b", 7)), poll("c", x=[A, (7, "b")])],
        [transaction("t", Send("x", "a", 0), Send("y", "b", 0)), poll("c", x=[A], y=[(0, "b")])],
    ],
    ids=[
        "nothing",
        "three read at once",
        "read in two polls",
        "a rebalance",
        "another assignment",
        "unknown and absent",
        "unknown and there",
        "failed and absent",
        "a gap between offsets",
        "a transaction",
    ],
)
def test_a_good_history_has_no_anomaly(history):
    assert anomalies(history) == []


FOUND = [
    ("inconsistent-offsets", [send("p", ("x", "a", 0)), send("q", ("x", "z", 0))]),
    ("inconsistent-offsets", [send("p", ("x", "a", 0)), send("q", ("x", "z"), fate=UNKNOWN), poll("c", x=[(0, "z")])]),
    ("duplicate", [*THREE, poll("c", x=[A, B, C, (3, "a")])]),
    ("lost-write", [*THREE, poll("c", x=[A, C])]),
    ("unseen", [*THREE, poll("c", x=[A, B])]),
    ("G1a", [send("p", ("x", "a"), fate=FAILED), poll("c", x=[A])]),
    ("G1a", [poll("c", x=[A])]),
    ("precommitted-read", [transaction("t", Send("x", "a", 0), Poll({"x": [A]}))]),
    ("poll-skip", [*THREE, poll("c", x=[A]), poll("c", x=[C]), ALL]),
    ("nonmonotonic-poll", [*THREE, ALL, poll("reader", x=[B])]),
    ("nonmonotonic-poll", [*THREE, ALL, placed(ASSIGN, "reader", "x", "y"), poll("reader", x=[B])]),
    ("int-poll-skip", [*THREE, poll("c", x=[A, C]), ALL]),
    ("int-nonmonotonic-poll", [*THREE, poll("c", x=[A, B, B, C])]),
    ("nonmonotonic-send", [send("p", ("x", "b", 1)), send("p", ("x", "a", 0)), poll("c", x=[A, B])]),
    ("int-nonmonotonic-send", [send("p", ("x", "b", 1), ("x", "a", 0)), poll("c", x=[A, B])]),
    ("int-send-skip", [send("p", ("x", "a", 0), ("x", "c", 2)), send("q", ("x", "b", 1)), ALL]),
    (
        "G0",
        [
            transaction("t", Send("x", "a", 0), Send("y", "d", 1)),
            transaction("u", Send("x", "b", 1), Send("y", "e", 0)),
            poll("c", x=[A, B], y=[(0, "e"), (1, "d")]),
        ],
    ),
    (
        "G1c",
        [
            transaction("t", Send("x", "a", 0), Poll({"y": [(0, "b")]})),
            transaction("u", Send("y", "b", 0), Poll({"x": [A]})),
        ],
    ),
]


IMPLIED = {
    "inconsistent-offsets": {"unseen", "lost-write"},  # only one of the two can be read
    "duplicate": {"int-nonmonotonic-poll", "G0"},
    "lost-write": {"unseen", "int-poll-skip"},
    "int-send-skip": {"G0"},
}
"""What cannot be without the other."""


@pytest.mark.parametrize(("name", "history"), FOUND, ids=[f"{n} {name}" for n, (name, _) in enumerate(FOUND)])
def test_an_anomaly_is_found_and_no_other_beside_it(name, history):
    found = names(history)
    assert name in found
    assert found - {name} <= IMPLIED.get(name, set())


def test_a_transaction_of_unknown_fate_that_was_read_in_part_lost_the_rest():
    torn = transaction("t", Send("x", "a", 0), Send("y", "b", 0), fate=UNKNOWN)
    history = [torn, send("p", ("y", "q", 1)), poll("c", x=[A]), poll("c", y=[(1, "q")])]
    assert names(history) == {"lost-write"}


def test_what_is_unseen_counts_only_behind_a_full_read():
    assert names([*THREE, poll("c", x=[A])], ends_with_full_read=False) == set()


def test_what_an_aborted_transaction_polled_is_in_the_log_all_the_same():
    assert names([*THREE, poll("c", fate=FAILED, x=[(1, "z")]), ALL]) == {"inconsistent-offsets"}


def test_what_nobody_promises_is_not_forbidden():
    found = [anomaly for name, history in FOUND for anomaly in anomalies(history) if anomaly.name == name]
    everything = {anomaly.name for anomaly in found}
    assert everything - {anomaly.name for anomaly in forbidden(found)} == {"int-send-skip", "G0"}
    with_subscribe = {anomaly.name for anomaly in forbidden(found, subscribes=True)}
    assert everything - with_subscribe == {"int-send-skip", "G0", "poll-skip", "nonmonotonic-poll"}


def test_a_subscription_forgets_the_positions_of_what_it_left():
    history = [*THREE, ALL, placed(SUBSCRIBE, "reader", "y"), placed(SUBSCRIBE, "reader", "x"), poll("reader", x=[A])]
    assert names(history) == set()


def drawn_history(seed):
    """Producers and consumers of a log that does everything right, and the logs at the end."""
    dice = random.Random(seed)
    logs, positions, history = {key: [] for key in KEYS}, {}, []
    for number in range(OPERATIONS):
        process, key = dice.randrange(5), dice.choice(KEYS)
        if dice.random() < 0.6:
            logs[key].append(number)
            fate = OK if dice.random() < 0.9 else UNKNOWN
            history.append(send(process, (key, number, len(logs[key]) - 1 if fate == OK else None), fate=fate))
        else:
            start = positions.get((process, key), 0)
            records = list(enumerate(logs[key]))[start : start + dice.randrange(6)]
            positions[process, key] = start + len(records)
            history.append(poll(process, **{key: records}))
    history.append(poll("last", **{key: list(enumerate(log)) for key, log in logs.items()}))
    return history, logs


def without(history, key, offset):
    """The history as it would be if nobody had read one record."""
    return [
        attrs.evolve(
            operation,
            steps=tuple(
                Poll({k: [r for r in rs if k != key or r[0] != offset] for k, rs in step.records.items()})
                if isinstance(step, Poll)
                else step
                for step in operation.steps
            ),
        )
        for operation in history
    ]


@each_row("seed", SEEDS, SEEDS)
def test_a_drawn_history_is_good_until_an_acknowledged_record_is_taken_from_it(seed):
    history, logs = drawn_history(seed)
    assert anomalies(history) == []
    acknowledged = {(one.key, one.offset) for op in history if op.fate == OK for one in op.sends}
    key, offset = random.Random(seed).choice(
        [place for place in sorted(acknowledged) if place[1] < len(logs[place[0]]) - 1]
    )
    assert {"lost-write", "unseen"} <= names(without(history, key, offset))
