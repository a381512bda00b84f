"""The kept runs: pandas alone recomputes their numbers, the notebook runs, and the page of results names its run."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.short_java import SHORT_JAVA

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "examples/kept_run"
PUBLISHED = ROOT / "docs/evidence/results-run"
PAGE = ROOT / "docs/evidence/results.md"
MEASURED = ("stages", "pipeline_broker/apis/data", "pipeline_broker/log", "pipeline_broker/measure", "spark_analysis")
"""The code that the published run measures, or that computes its numbers."""
CHANGED_SINCE = "Later commits changed the measured code."
NUMBERS_MIN = 500


def recomputed(folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, KEPT / "recompute.py", folder], capture_output=True, text=True, timeout=400, check=False
    )


@pytest.fixture
def copied(tmp_path):
    return shutil.copytree(KEPT / "run", tmp_path / "run")


@pytest.mark.parametrize("folder", [KEPT / "run", PUBLISHED], ids=lambda folder: folder.name)
def test_pandas_alone_recomputes_every_number(folder):
    found = recomputed(folder)
    assert found.returncode == 0, found.stdout[-2000:]
    count, _, rest = found.stdout.partition(" ")
    assert rest == "numbers of summary.json agree with the Parquet files\n"
    assert int(count.replace(",", "")) >= NUMBERS_MIN


def test_ratios_are_recomputed_without_the_rows(copied):
    for table in ("client", "requests"):
        shutil.rmtree(copied / "traces" / table)
    found = recomputed(copied)
    assert found.returncode == 0, found.stdout[-2000:]


def test_the_page_of_results_names_its_run():
    summary, page = json.loads((PUBLISHED / "summary.json").read_text()), PAGE.read_text()
    command, commit = (summary["machine"][name] for name in ("command", "commit"))
    (seed,) = re.findall(r"--seed (\d+)", command)
    assert f"{len(summary['runs']):,} runs (seed {seed})" in page
    assert f"commit {commit[:7]}, [compiled]" in page
    assert f"*{summary['quality']['light']}*" in page


def test_the_page_of_results_says_whether_the_measured_code_has_changed():
    commit = json.loads((PUBLISHED / "summary.json").read_text())["machine"]["commit"]
    git = ["git", "-C", ROOT, "log", "--format=%h", f"{commit}..HEAD", "--", *MEASURED]
    found = subprocess.run(git, capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip("this checkout lacks the commit of the run")
    assert (CHANGED_SINCE in PAGE.read_text()) is bool(found.stdout)


CHANGED = {
    "cells": ("requests_per_s", "p50_ms"),
    "speedups": ("speedup", "corrected_p"),
    "equal_load": ("p50 ratio",),
    "self": ("low",),
    "stages": ("total_us high",),
}
"""Numbers of the summary, in the first entry of each part."""


def test_each_number_that_was_changed_is_found(copied):
    path = copied / "summary.json"
    summary = json.loads(path.read_text())
    for part, names in CHANGED.items():
        for name in names:
            *within, last = name.split()
            place = summary[part] if part == "self" else summary[part][0]
            for step in within:
                place = place[step]
            place[last] *= 1.001
    path.write_text(json.dumps(summary))
    found = recomputed(copied)
    assert found.returncode == 1
    lines = found.stdout.splitlines()
    assert len(lines) == sum(map(len, CHANGED.values())), found.stdout
    assert all(re.search(r": published [-\d.e]+, computed [-\d.e]+$", line) for line in lines)


def test_the_notebook_runs_and_draws_two_plots(tmp_path):
    notebook = json.loads((KEPT / "look.ipynb").read_text())
    assert all(not cell.get("outputs") for cell in notebook["cells"]), "saved without its outputs"
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    program = "\n".join(["import warnings", "warnings.simplefilter('error', FutureWarning)", *cells])
    program += "\nprint(len(plt.get_fignums()), len(latencies), rates.shape)\n"
    script = tmp_path / "look.py"
    script.write_text(program)
    found = subprocess.run(
        [sys.executable, script], cwd=KEPT, env={**os.environ, "MPLBACKEND": "agg", "JDK_JAVA_OPTIONS": SHORT_JAVA},
        capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stderr[-2000:]
    assert found.stdout.splitlines()[-1] == "2 4 (4, 4)"
