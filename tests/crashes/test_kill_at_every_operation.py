"""A broker that is killed at any one operation of its file system loses nothing that it acknowledged.

A fixed sequence of deeds is counted once; then each run is killed at one point of it: before an operation, in the
middle of a write, after a sync. `POINTS` is how many of the points are drawn, or `all`; `LEDGER` and `SEED` as in
`campaign.py`. That nothing is missed is checked from outside: strace sees no other call that changes the data
directory.
"""

import collections
import os
import random
import re

import attrs
import pytest

from pipeline_broker.node.admin_socket import ADMIN_NAME
from tests.conftest import CAMPAIGN
from tests.crashes.broker_under_test import StartFailed
from tests.crashes.campaign import run_noted
from tests.crashes.kill_points import PointCounts, PointRun, points_of
from tests.crashes.killing_files import BEFORE, OPERATIONS
from tests.crashes.ledger import Ledger, current_commit
from tests.required import require_tool

pytestmark = [pytest.mark.faults, pytest.mark.kill_points]
KIND = "kill points"
POINTS = os.environ.get("POINTS", "3")
REACHED_SHARE_MIN = 0.5
NOT_THE_FILE_SYSTEMS = {ADMIN_NAME, ".lock"}
"""A socket, and a file whose bytes nobody needs: what is done to them is not counted."""
CHANGES = {
    "pwritev": "write",
    "pwritev2": "write",
    "fdatasync": "sync",
    "ftruncate": "truncate",
    "rename": "rename",
    "unlink": "unlink",
    "rmdir": "remove directory",
}
OTHERS = (
    "openat,creat,write,writev,pwrite64,fsync,sync_file_range,renameat,renameat2,unlinkat,mkdir,mkdirat,link,linkat,"
    "symlink,symlinkat,truncate,fallocate,copy_file_range,sendfile"
)
RUNS_COUNTED_MAX = 3
CALL = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+)")
UNFINISHED = re.compile(r"(.*) <unfinished \.\.\.>")
RESUMED = re.compile(r"<\.\.\. \w+ resumed>(.*)")


def test_killed_at_any_operation_it_loses_nothing(tmp_path, record_property):
    """Cases 2, 3, 4, 5, 6, 7, 9 and 10."""
    found = set()
    for number in range(RUNS_COUNTED_MAX):  # a slow broker may end before it removes a deleted directory
        with PointRun(tmp_path / f"counted-{number}") as counted:
            found.update(points_of(counted.count()))
        if {operation for operation, _, _ in found} == set(OPERATIONS):
            break
    points = sorted(found)
    assert {operation for operation, _, _ in points} == set(OPERATIONS)
    print(f"\n{len(points)} points")
    if POINTS != "all":
        points = random.Random(os.environ.get("SEED", "0")).sample(points, int(POINTS))
    ledger = Ledger(os.environ.get("LEDGER"), current_commit(), KIND)
    for number, point in enumerate(points):
        seed = " ".join(map(str, point))
        if seed in ledger.seeds:
            continue
        with PointRun(tmp_path / f"run-{number}", point) as run:
            run_noted(ledger, seed, run)
    totals = {field.name: ledger.total(field.name) for field in attrs.fields(PointCounts)}
    text = (
        "{kills} kills at an operation ({not_reached} points not reached), {kills_in_recovery} during recovery: "
        "{compared} records compared".format(**totals)
    )
    print(text)
    record_property(CAMPAIGN, text)
    assert ledger.violated_seeds == []
    assert totals["kills"] >= REACHED_SHARE_MIN * (totals["kills"] + totals["not_reached"])


def test_a_start_that_forgets_the_last_commit_is_noticed(tmp_path):
    """The first such kill may fall where nothing was acknowledged since."""
    with pytest.raises((AssertionError, StartFailed)):  # noqa: PT012 - any of the runs
        for number in range(30, 36):
            point = "write", number, BEFORE
            with PointRun(tmp_path / f"run-{number}", point, variant="counting-and-loses-the-last-frame") as run:
                run.run()


def calls_of(log):
    """The calls as strace wrote them, those of threads that it wrote in two pieces as one."""
    begun = {}
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        thread, _, text = line.partition(" ")
        text = text.strip()
        if unfinished := UNFINISHED.fullmatch(text):
            begun[thread] = unfinished[1]
        elif resumed := RESUMED.fullmatch(text):
            yield begun.pop(thread) + resumed[1]
        else:
            yield text


def changes_seen(log, data):
    """What strace saw: operation -> how often, of calls that succeeded and changed something below `data`."""
    seen, unknown = collections.Counter(), []
    for text in calls_of(log):
        if not (call := CALL.match(text)) or str(data) not in call["arguments"] or int(call["result"]) < 0:
            continue
        name, arguments = call["name"], call["arguments"]
        if any(f"{data}/{known}" in arguments for known in NOT_THE_FILE_SYSTEMS):
            continue
        if name == "openat" and "O_CREAT" not in arguments:
            continue
        if name == "sendfile" and "<socket:" in arguments.split(",")[0]:  # it reads the file
            continue
        if name == "openat":
            operation = "create"
        elif name == "fsync":
            operation = "sync directory"
        elif name == "mkdir":
            operation = "make directory"
        else:
            operation = CHANGES.get(name)
        if operation is None:
            unknown.append(text)
        else:
            seen[operation] += 1
    return seen, unknown


def test_nothing_changes_the_data_directory_but_through_the_file_system_that_is_counted(tmp_path):
    log = tmp_path / "calls"
    traced = ",".join((*CHANGES, OTHERS))
    prefix = (require_tool("strace"), "-f", "-y", "-qq", "-s", "0", "-o", str(log), "-e", f"trace={traced}")
    with PointRun(tmp_path / "traced", prefix=prefix) as run:
        counted = run.count()
        seen, unknown = changes_seen(log, run.broker.data)
    assert unknown == []
    exact = ("create", "write", "sync", "truncate", "rename", "unlink", "remove directory")
    assert {name: seen[name] for name in exact} == {name: counted[name] for name in exact}
    # each directory that is made, or may have been made by an earlier start, is synced where it lies
    assert seen["make directory"] <= counted["make directory"]
    assert seen["sync directory"] >= counted["sync directory"]
    # when the folder of a deleted topic goes is its own thread's choice: it may stay until the end
    assert min(counted[name] for name in exact if name != "remove directory") > 0
