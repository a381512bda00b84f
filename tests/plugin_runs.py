"""How tests run pytest with the plugin, wherever they do.

Rules: no plugin is loaded by itself, whatever is installed here: that is sooner, and the tests of the wheel show that
pytest finds this one. pytest-xdist is named where it is wanted.
"""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import attrs

ROOT = Path(__file__).parents[1]
PLUGIN = "pipeline_broker.pytest_plugin"
RUN_SECONDS_MAX = 100


def run_python(folder, *arguments, **environment):
    """Run Python in a folder, with this repository's packages."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONSAFEPATH": "", **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS_MAX,
    )


def run_pytest(folder, *arguments):
    """Run pytest in a folder, with the plugin."""
    workers = ("-p", "xdist") if "-n" in arguments else ()
    command = ("-m", "pytest", "-p", "no:cacheprovider", "-W", "error", "-p", PLUGIN, *workers, *arguments)
    return run_python(folder, *command, PYTEST_DISABLE_PLUGIN_AUTOLOAD="1", COLUMNS="200")


@attrs.frozen
class Outcome:
    """Of a run of pytest."""

    text: str
    code: int

    def counts(self):
        """How many tests passed, failed, ... by the last line."""
        return {
            word.rstrip("s"): int(number)
            for number, word in re.findall(r"(\d+) (passed|failed|errors?|warnings?)", self.last)
        }

    @property
    def last(self):
        return self.text.rstrip().splitlines()[-1]


class Tree:
    """Writes test files and runs pytest on them, in a folder whose path has blanks."""

    def __init__(self, parent):
        self.folder = parent / "a stranger's tree"
        self.folder.mkdir()

    def __call__(self, files, *arguments):
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        result = run_pytest(self.folder, *arguments)
        return Outcome(result.stdout + result.stderr, result.returncode)
