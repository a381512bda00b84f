"""Tests are found by the claims in their docstrings."""

import pytest

from scripts.name_behaviour_tests import by_key, claims, keys_of, rows


@pytest.mark.parametrize(
    ("docstring", "keys"),
    [
        ("Behaviour 7: ten requests.", ["7"]),
        ("Behaviours 7, 12-14 and testMute: and so on.", ["7", "12", "13", "14", "testMute"]),
        ("A fact.\n\nBehaviour 9: more of it.", ["9"]),
        ("A fact. Behaviour 6. Cases 56 and 57.", ["6", "case 56", "case 57"]),
        ("The behaviour 9 of another test.", []),
        ("", []),
    ],
)
def test_claims_are_read_from_docstrings(docstring, keys):
    assert claims(docstring) == keys


def test_a_range_stands_for_all_of_its_keys():
    assert keys_of("1-3, 9 and testMute") == ["1", "2", "3", "9", "testMute"]


def test_each_key_has_the_tests_that_claim_it_once():
    tests = {"tests/a.py::test_x": "Behaviour 1: it. Behaviour 1.", "tests/b.py::test_y": "Behaviours 1 and 2."}
    assert by_key(tests) == {"1": ["tests/a.py::test_x", "tests/b.py::test_y"], "2": ["tests/b.py::test_y"]}


def test_rows_begin_with_a_number_or_the_name_of_a_test_of_kafka():
    assert rows("| # | fact |\n|---|---|\n| 7 | ten | same |\n| testMute | muted |\n") == {
        "7": "ten | same",
        "testMute": "muted",
    }
