"""A ledger of runs: a file of JSON lines, one for each run, to which campaigns append and from which they go on.

Rules of this file: a line is written, and synced, when its run has ended; the runs of one kind and commit count
together; a seed that the ledger has for them is not run again. Without a path nothing is written and every seed is new.
"""

import json
import os
import subprocess
from pathlib import Path

from tests.conftest import ROOT

CYCLES = int(os.environ.get("CYCLES", "5"))  # kills under load; `make kill` sets it
HELD = "held"
KILLS = "kills"  # the kind of lines that name none


def current_commit():
    """The commit that is tested, with a mark when the tree differs from it."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() if result.returncode == 0 else "unknown"


class Ledger:
    """See the module."""

    def __init__(self, path, commit, kind=KILLS):
        self.path = None if path is None else Path(path)
        self.commit = commit
        self.kind = kind
        self.lines = []
        if self.path is not None and self.path.exists():
            lines = map(json.loads, self.path.read_text(encoding="utf-8").splitlines())
            self.lines = [
                line for line in lines if (line["commit"], line.get("kind", KILLS)) == (self.commit, self.kind)
            ]

    @property
    def seeds(self):
        return {line["seed"] for line in self.lines}

    @property
    def violated_seeds(self):
        """Of the runs in which something was found."""
        return [line["seed"] for line in self.lines if line["outcome"] != HELD]

    def total(self, name):
        """The sum of a count over this commit's runs."""
        return sum(line.get(name, 0) for line in self.lines)

    def append(self, **line):
        """Note a run."""
        line = {"commit": self.commit, "kind": self.kind, **line}
        self.lines.append(line)
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
                file.flush()
                os.fsync(file.fileno())
