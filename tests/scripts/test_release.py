"""Refused releases, and the Pythons that a release is tested on."""

import subprocess
import sys
from pathlib import Path

import pytest

from scripts.release import LINE, PYPROJECT, pythons, reasons_against

FRAGMENTS = [Path("changelog.d/a.added.md")]


def test_a_release_of_a_later_version_from_a_clean_tree_is_made():
    assert reasons_against("0.2.0", "0.1.9", "", FRAGMENTS) == []
    assert reasons_against("0.10.0", "0.9.0", "", FRAGMENTS) == []


@pytest.mark.parametrize(
    ("version", "changes", "fragments", "reason"),
    [
        ("", "", FRAGMENTS, "VERSION= is not a version"),
        ("0.2", "", FRAGMENTS, "three numbers"),
        ("0.1.0", "", FRAGMENTS, "not above 0.1.0"),
        ("0.0.9", "", FRAGMENTS, "not above 0.1.0"),
        ("0.2.0", " M README.md\n", FRAGMENTS, "not committed"),
        ("0.2.0", "", [], "no changes"),
    ],
)
def test_a_release_is_refused(version, changes, fragments, reason):
    (text,) = reasons_against(version, "0.1.0", changes, fragments)
    assert reason in text


def test_the_project_file_has_one_version():
    assert len(LINE.findall(PYPROJECT.read_text(encoding="utf-8"))) == 1


def test_a_release_is_tested_on_each_python_since_3_11():
    found = pythons()
    minors = []
    for python in found:
        code = "import sys; print(sys.version_info.minor)"
        minors.append(int(subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout))
    assert sys.version_info.minor in minors
    assert minors == sorted(set(minors))
    assert minors[0] >= 11
