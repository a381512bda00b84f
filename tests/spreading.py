"""In which order tests run, and which of them go to one worker together.

Rules: workers take units of tests in the order of collection (--no-loadscope-reorder), so long units come first and
none is left for the end; a session of Spark and Apache Kafka are started once, and so is what the tests of a module
share (its fixtures of module scope): one worker has them all; many tests of milliseconds go as one unit, because each
unit is handed out by itself. Every worker collects all tests, and begins with a share of the files of its own: where
nothing is compiled yet, a file is compiled by one of them.
"""

from collections import Counter
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

CHAINS = ("kafka", "spark")
"""Groups of minutes, each for one worker."""
LONG = ("simulation", "faults", "clients", "browser")
"""Markers of tests that take seconds, the longest first."""
TESTS = Path(__file__).parent
LONG_FOLDERS = {
    TESTS / folder
    for folder in (
        ".",
        "apis/transactions",
        "commands/cluster",
        "embedded",
        "log/compaction",
        "measure/experiment",
        "measure/load",
        "repository",
        "state/transactions",
    )
}
"""Folders of tests without such a marker that take seconds too, as tables do (see tests/tables.py)."""
assert all(folder.is_dir() for folder in LONG_FOLDERS), "a folder has moved"
TOGETHER = 50
"""Tests of one file that go as one unit, where a file has more of them."""


def spread(items):
    """Sort the tests of a run, long ones first, and put them into units; tests of one rank stay as they were."""
    for item in items:
        if item.get_closest_marker("spark") and not group_of(item):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif not group_of(item) and (shared := shared_by_module(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{item.path.stem}-shared{shared}"))
    items.sort(key=rank)
    counts = Counter(item.path for item in items)
    places = Counter()
    for item in items:
        if counts[item.path] > TOGETHER and rank(item) == len(CHAINS) + len(LONG) + 1:
            unit = f"{item.path.parent.name}-{item.path.stem}-{places[item.path] // TOGETHER}"
            item.add_marker(pytest.mark.xdist_group(unit))
            places[item.path] += 1


def import_share(config):
    """Import the files of a worker's share, as their collection would, when it collects all tests."""
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args != ["tests"]:
        return
    files = sorted(TESTS.rglob("test_*.py"))
    for path in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # its collection tells
            import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def shared_by_module(item):
    """Which parameters the fixtures of module scope have that a test takes, as text; None where it takes none."""
    if (fixtures := getattr(item, "_fixtureinfo", None)) is None:  # pytest tells the scopes of fixtures nowhere else
        return None
    shared = [name for name, found in fixtures.name2fixturedefs.items() if found[-1].scope == "module"]
    indices = item.callspec.indices if hasattr(item, "callspec") else {}
    return "".join(f"-{name}-{indices[name]}" for name in sorted(shared) if name in indices) if shared else None


def group_of(item):
    marker = item.get_closest_marker("xdist_group")
    return marker.args[0] if marker else None


def rank(item):
    """The place of a test among all: 0 comes first."""
    group = group_of(item)
    if group in CHAINS:
        return CHAINS.index(group)
    for place, name in enumerate(LONG):
        if item.get_closest_marker(name):
            return len(CHAINS) + place
    is_long = group or item.path.parent in LONG_FOLDERS or hasattr(getattr(item, "obj", None), "rows")
    return len(CHAINS) + len(LONG) + (not is_long)
