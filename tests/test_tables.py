"""A table reports every failing row, and a row can run alone."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tables import SHOWN_MAX, each_row

ROOT = Path(__file__).parent.parent
TESTS = """
import pytest
from tests.tables import each_row

@pytest.fixture(scope="module")
def seen():
    return []

@each_row("left, right", [(1, 1), (1, 2), (3, 3), (3, 4)], ["a", "b", "c", "d"], parts=PARTS)
def test_pairs(seen, left, right):
    seen.append(left)
    assert left == right
"""


def tell(directory, *names, parts=1, **environment):
    """Return the last lines of pytest for two passing and two failing rows."""
    path = directory / "test_pairs.py"
    path.write_text(TESTS.replace("PARTS", str(parts)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--rootdir={directory}"]
    command += [str(path) + name for name in names or ("",)]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory, env=environment)
    return done.stdout


def test_every_row_that_fails_is_named_and_shown(tmp_path):
    told = tell(tmp_path)
    assert "2 of 4 rows failed: b, d; EACH_ROW=1 makes each of them a test: test_pairs[b]" in told
    assert "assert 1 == 2" in told
    assert "assert 3 == 4" in told
    assert "1 failed" in told


def test_a_part_has_every_other_row(tmp_path):
    told = tell(tmp_path, parts=2)
    assert "2 of 2 rows failed: b, d" in told
    assert "1 failed, 1 passed" in told


def test_a_row_runs_alone(tmp_path):
    assert "1 failed, 1 passed" in tell(tmp_path, "::test_pairs[a]", "::test_pairs[b]", EACH_ROW="1")


def test_a_row_that_skips_or_rejects_its_example_fails():
    @each_row("end", [pytest.skip, pytest.fail, len], ["skips", "fails", "raises"])
    def ends(end):
        end("now")
        assert end is len

    with pytest.raises(BaseExceptionGroup, match="2 of 3 rows failed: skips, fails;"):
        ends()


def test_many_failures_are_named_and_some_shown():
    @each_row("number", range(100), range(100))
    def never(number):
        raise ValueError(number)

    with pytest.raises(ExceptionGroup, match=r"100 of 100 rows failed: 0, 1, .*, 99;") as raised:
        never()
    assert len(raised.value.exceptions) == SHOWN_MAX


def test_rows_have_unique_names():
    with pytest.raises(AssertionError, match="name of its own"):
        each_row("number", [1, 2], ["one", "one"])


def test_hypothesis_draws_other_examples_for_each_row_also_without_chance():
    drawn = {}

    @each_row("row", ["a", "b"], ["a", "b"])
    @settings(max_examples=5, derandomize=True, database=None)
    @given(number=st.integers())
    def draws(row, number):
        drawn.setdefault(row, []).append(number)

    draws()
    assert drawn["a"] != drawn["b"]
