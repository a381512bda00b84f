"""Tests are found by what their docstrings say and followed where they moved."""

import pytest

from scripts.name_behaviour_tests import REASON, Row, claims, rows, with_tests


@pytest.mark.parametrize(
    ("docstring", "keys"),
    [
        ("Behaviour 7: ten requests.", ["7"]),
        ("Behaviours 7, 12-14 and testMute: and so on.", ["7", "12", "13", "14", "testMute"]),
        ("A fact.\n\nBehaviour 9: more of it.", ["9"]),
        ("The behaviour 9 of somebody else.", []),
        ("", []),
    ],
)
def test_claims_are_read_from_docstrings(docstring, keys):
    assert claims(docstring) == keys


def test_a_test_that_moved_is_followed_and_one_that_is_gone_is_left_out():
    named = "<br>".join(f"`tests/old.py::test_{name}`" for name in ("moved", "gone", "twice"))
    tests = {"tests/new.py::test_moved": "", "tests/a.py::test_twice": "", "tests/b.py::test_twice": "Behaviour 1: it."}
    (row,) = rows(with_tests(str(Row("1", "fact", "same", named)), tests))
    assert row.named == ["tests/b.py::test_twice", "tests/new.py::test_moved"]


def test_a_reason_stays_until_there_is_a_test():
    text = f"{Row('testMute', 'fact', 'same', REASON + 'nothing to test')}\n"
    assert with_tests(text, {}) == text
    assert rows(with_tests(text, {"tests/a.py::test_it": "Behaviour testMute: it."}))[0].named == [
        "tests/a.py::test_it"
    ]
