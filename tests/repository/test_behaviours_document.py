"""docs/evidence/behaviours.md has a row for every behaviour and every case, and the tests that it names are there.

Rules: the tests are parsed, never imported; a row without a test says why.
"""

from scripts.name_behaviour_tests import DOCUMENT, REASON, claims, every_test, rows

ROWS = rows(DOCUMENT.read_text(encoding="utf-8"))
BEHAVIOURS = [str(number) for number in range(1, 104)]
SELECTOR_BEHAVIOURS = 9
CASES = [f"case {number}" for number in (*range(43, 68), 84, 85)]


def test_every_behaviour_and_every_case_has_one_row():
    keys = [row.key for row in ROWS]
    assert [key for key in keys if key.isdigit()] == BEHAVIOURS
    assert [key for key in keys if key.startswith("case")] == CASES
    assert len(set(keys)) == len(keys) == len(BEHAVIOURS) + SELECTOR_BEHAVIOURS + len(CASES)


def test_every_test_that_is_named_exists():
    """Where one was moved, `python scripts/name_behaviour_tests.py` follows it."""
    missing = {row.key: [test for test in row.named if test not in every_test()] for row in ROWS}
    assert {key: tests for key, tests in missing.items() if tests} == {}


def test_a_row_without_a_test_says_why():
    silent = [row.key for row in ROWS if not row.named and not row.tests.removeprefix(REASON).strip()]
    unmarked = [row.key for row in ROWS if not row.named and not row.tests.startswith(REASON)]
    assert (silent, unmarked) == ([], [])


def test_a_behaviour_that_a_test_claims_to_check_has_a_row():
    claimed = {key: test for test, docstring in every_test().items() for key in claims(docstring)}
    assert {key: test for key, test in claimed.items() if key not in {row.key for row in ROWS}} == {}
