"""Tests are found by the claims in their docstrings, and followed if they move."""

import pytest

from scripts.name_behaviour_tests import REASON, Row, claims, rows, with_tests


@pytest.mark.parametrize(
    ("docstring", "keys"),
    [
        ("Behaviour 7: ten requests.", ["7"]),
        ("Behaviours 7, 12-14 and testMute: and so on.", ["7", "12", "13", "14", "testMute"]),
        ("A fact.\n\nBehaviour 9: more of it.", ["9"]),
        ("The behaviour 9 of another test.", []),
        ("", []),
    ],
)
def test_claims_are_read_from_docstrings(docstring, keys):
    assert claims(docstring) == keys


def test_moved_tests_are_followed_and_deleted_ones_are_dropped():
    named = "<br>".join(f"`tests/old.py::test_{name}`" for name in ("moved", "gone", "twice"))
    tests = {"tests/new.py::test_moved": "", "tests/a.py::test_twice": "", "tests/b.py::test_twice": "Behaviour 1: it."}
    (row,) = rows(with_tests(str(Row("1", "fact", "same", named)), tests))
    assert row.named == ["tests/b.py::test_twice", "tests/new.py::test_moved"]


def test_a_reason_stays_until_a_test_exists():
    text = f"{Row('testMute', 'fact', 'same', REASON + 'nothing to test')}\n"
    assert with_tests(text, {}) == text
    assert rows(with_tests(text, {"tests/a.py::test_it": "Behaviour testMute: it."}))[0].named == [
        "tests/a.py::test_it"
    ]
