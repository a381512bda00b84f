"""The order of tests, and their distribution over workers.

Workers take units of tests in collection order (--no-loadscope-reorder). Long units come first, so none is left for the
end. One worker runs all tests that share an expensive resource: a Spark session, Apache Kafka, module fixtures. Many
fast tests are one unit, because handing out a unit has a cost. Every worker collects all tests, and begins with its own
share of the files, so that uncompiled files are compiled by one worker each.
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
TOGETHER = 20
"""Maximum of short tests of one file in a unit. After each test, pytest-xdist walks all units handed out so far."""


def spread(items):
    """Sort tests by rank, long ones first, and group them into units. The sort is stable."""
    for item in items:
        if item.get_closest_marker("spark") and not group_of(item):
            item.add_marker(pytest.mark.xdist_group("spark"))
        elif not group_of(item) and (shared := shared_by_module(item)) is not None:
            item.add_marker(pytest.mark.xdist_group(f"{item.path.parent.name}-{item.path.stem}-shared{shared}"))
    ranks = {item: rank(item) for item in items}  # at most once for each: the markers of a test take long to find
    items.sort(key=ranks.get)
    places = Counter()
    for item in items:
        if ranks[item] == len(CHAINS) + len(LONG) + 1:
            unit = f"{item.path.parent.name}-{item.path.stem}-{places[item.path] // TOGETHER}"
            item.add_marker(pytest.mark.xdist_group(unit))
            places[item.path] += 1


def import_share(config):
    """Import a worker's share of the files, as their collection would, if it collects all tests."""
    worker = getattr(config, "workerinput", None)
    if worker is None or config.args != ["tests"]:
        return
    files = sorted(TESTS.rglob("test_*.py"))
    for path in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # its collection tells
            import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def shared_by_module(item):
    """Return the parameters of a test's module fixtures as text; None without such fixtures."""
    if (fixtures := getattr(item, "_fixtureinfo", None)) is None:  # pytest tells the scopes of fixtures nowhere else
        return None
    shared = [name for name, found in fixtures.name2fixturedefs.items() if found[-1].scope == "module"]
    indices = item.callspec.indices if hasattr(item, "callspec") else {}
    return "".join(f"-{name}-{indices[name]}" for name in sorted(shared) if name in indices) if shared else None


def group_of(item):
    marker = item.get_closest_marker("xdist_group")
    return marker.args[0] if marker else None


def rank(item):
    """Return the rank of a test; 0 comes first."""
    group = group_of(item)
    if group in CHAINS:
        return CHAINS.index(group)
    for place, name in enumerate(LONG):
        if item.get_closest_marker(name):
            return len(CHAINS) + place
    is_long = group or item.path.parent in LONG_FOLDERS or hasattr(getattr(item, "obj", None), "rows")
    return len(CHAINS) + len(LONG) + (not is_long)
