"""Every target that measures or campaigns, and every benchmark, is run by `make targets` or has a reason not to be."""

import re
from pathlib import Path

from scripts.check_targets import BENCHMARKS, NOT_RUN, TARGETS

ROOT = Path(__file__).parents[2]
OF_DEVELOPMENT = {
    "check",
    "clean",
    "compiled",
    "contracts",
    "docs",
    "help",
    "imports",
    "lint",
    "release",
    "serve",
    "system-packages",
    "targets",
    "test",
    "test-compiled",
    "test-spark",
    "types",
    "wheel",
}
"""Targets that measure nothing."""


def test_every_benchmark_is_listed():
    there = {path.name for path in (ROOT / "benchmarks").glob("bench_*.py")}
    assert there == BENCHMARKS.keys() | {name for name in NOT_RUN if name.endswith(".py")}


def test_every_target_that_measures_is_listed():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())
    listed = TARGETS.keys() | {name for name in NOT_RUN if not name.endswith(".py")}
    assert phony - OF_DEVELOPMENT == listed
    assert phony >= OF_DEVELOPMENT


def test_a_variable_of_a_target_is_one_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for variables in TARGETS.values():
        for name in variables:
            assert f"$({name})" in makefile or f"$(if $({name})" in makefile, name
