"""docs/evidence/behaviours.md and campaigns.md have a row for every behaviour and every case, each with tests.

Rules: the tests are parsed, never imported; a row without a test says why, and only few rows have none.
"""

from scripts.name_behaviour_tests import ROOT, WITHOUT_TEST, by_key, every_test, rows
from scripts.write_reference import PART

SELECTOR_BEHAVIOURS = 9
CASES = {
    "behaviours.md": [*range(43, 68), 84, 85],
    "campaigns.md": [*range(1, 43), 79, 82, 87],
}
WITHOUT_TEST_MAX = 1


def written_by_hand(document):
    return PART.sub("", (ROOT / "docs/evidence" / document).read_text(encoding="utf-8"))


BEHAVIOURS, _, BAD_INPUT = written_by_hand("behaviours.md").partition("\n## Bad input\n")
ROWS = {
    **rows(BEHAVIOURS),
    **{f"case {key}": cells for key, cells in rows(BAD_INPUT).items()},
    **{
        f"case {key}": cells
        for key, cells in rows(written_by_hand("campaigns.md").partition("\n## Cases\n")[2]).items()
    },
}


def test_every_behaviour_and_every_case_has_one_row():
    keys = [key for key in ROWS if not key.startswith(("test", "case"))]
    assert keys == [str(number) for number in range(1, 104)]
    assert len([key for key in ROWS if key.startswith("test")]) == SELECTOR_BEHAVIOURS
    cases = [key for key in ROWS if key.startswith("case")]
    assert cases == [f"case {number}" for numbers in CASES.values() for number in numbers]


def test_a_row_without_a_test_says_why_and_there_are_few():
    claimed = by_key(every_test())
    without = [key for key in ROWS if key not in claimed]
    assert [key for key in without if WITHOUT_TEST not in ROWS[key]] == []
    assert len(without) <= WITHOUT_TEST_MAX


def test_each_behaviour_or_case_that_a_test_claims_to_check_has_a_row():
    claimed = by_key(every_test())
    assert claimed
    assert {key: tests for key, tests in claimed.items() if key not in ROWS} == {}
