"""docs/evidence/campaigns.md has a row for every case of fault, and the tests that it names are there.

Rules: the tests are parsed, never imported; a row without a test says why, and only few rows have none.
"""

import re

from scripts.name_behaviour_tests import REASON, ROOT, every_test

DOCUMENT = (ROOT / "docs/evidence/campaigns.md").read_text(encoding="utf-8")
TABLE = DOCUMENT.partition("## Cases")[2].partition("\n## ")[0]
ROWS = re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \|$", TABLE, re.MULTILINE)
CASES = [*range(1, 43), 79, 82, 87]
WITHOUT_TEST_MAX = 8


def named(tests):
    return re.findall(r"`([^`]+::[^`]+)`", tests)


def test_every_case_has_one_row():
    assert [int(number) for number, _, _ in ROWS] == CASES


def test_every_test_that_a_case_names_exists():
    missing = {number: [f"tests/{test}" for test in named(tests)] for number, _, tests in ROWS}
    missing = {number: [test for test in tests if test not in every_test()] for number, tests in missing.items()}
    assert {number: tests for number, tests in missing.items() if tests} == {}


def test_a_case_without_a_test_says_why_and_there_are_few():
    without = [(number, tests) for number, _, tests in ROWS if not named(tests)]
    assert [number for number, tests in without if not tests.removeprefix(REASON).strip()] == []
    assert [number for number, tests in without if not tests.startswith(REASON)] == []
    assert len(without) <= WITHOUT_TEST_MAX
