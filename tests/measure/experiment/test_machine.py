"""The description of the machine and its load around a run."""

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.measure.experiment.machine import (
    Surroundings,
    describe_machine,
    describe_software,
    source_commit,
    steal_share,
    ticks_of_others,
)
from tests.drawn import drawn, measured

ticks = st.lists(st.integers(0, 1000), min_size=8, max_size=10).map(tuple)


@measured(spent=0.3)
@given(ticks, ticks)
def test_the_steal_share_is_that_of_all_time_between_two_readings(before, spent):
    after = tuple(early + late for early, late in zip(before, spent, strict=False))
    share = steal_share(before[: len(after)], after)
    if not drawn("spent", sum(spent[:8])):
        assert share is None
        return
    assert share == pytest.approx(spent[7] / sum(spent[:8]), abs=1e-4)
    assert 0 <= share <= 1


@pytest.mark.parametrize("times", [(), (1, 2, 3)])
def test_an_unknown_steal_share_is_none(times):
    assert steal_share(times, times) is None


def stat(pid, parent, ticks, name="python"):
    return f"{pid} ({name}) S {parent} {' '.join(map(str, range(9)))} {' '.join(map(str, ticks))} 20 0 1 0 99"


@measured(others=0.3, ours=0.3, kernel=0.05)
@given(st.data())
def test_the_time_of_others_leaves_out_the_tree_of_a_process_and_the_kernel(data):
    """The model walks up from each process; names may look like the fields of the file."""
    ours = 50
    parents = {1: 0, 2: 0, ours: 1}
    for pid in range(100, 100 + data.draw(st.integers(0, 12))):
        parents[pid] = data.draw(st.sampled_from(sorted(parents)))
    stats, expected = [], 0
    names = {pid: data.draw(st.sampled_from(["sh", "a b", ") S 1 (", "kthreadd"])) for pid in sorted(parents)}
    names[2] = data.draw(st.sampled_from(["kthreadd", "kthreadd", "sh"]))
    for pid in data.draw(st.permutations(sorted(parents))):
        ticks = data.draw(st.lists(st.integers(0, 1000), min_size=4, max_size=4))
        stats.append(stat(pid, parents[pid], ticks, names[pid]))
        above, at = [pid], pid
        while at := parents[at]:
            above.append(at)
        kind = "ours" if ours in above else "kernel" if 2 in above and names[2] == "kthreadd" else "others"
        drawn(kind, pid >= 100)
        expected += sum(ticks) if kind == "others" else 0
    assert ticks_of_others(stats, ours) == expected


def show_processes(proc, idle, **ticks):
    pids = {
        "init": (1, 0),
        "ours": (os.getpid(), 1),
        "child": (max(os.getpid(), 100) + 1, os.getpid()),
        "other": (3, 1),
    }
    for name, (pid, parent) in pids.items():
        (proc / str(pid)).mkdir(exist_ok=True)
        (proc / str(pid) / "stat").write_text(stat(pid, parent, [ticks.get(name, 0), 0, 0, 0]))
    (proc / "stat").write_text(f"cpu  {sum(ticks.values())} 0 0 {idle} 0 0 0 0 0 0\n")


def test_the_shares_of_a_block_count_another_process_and_not_a_child(tmp_path):
    show_processes(tmp_path, 1000, ours=10, child=20, other=30)
    with Surroundings(tmp_path) as surroundings:
        show_processes(tmp_path, 1100, ours=60, child=50, other=50)
    assert surroundings.describe() == {"others_share": 0.1, "steal_share": 0.0}


def test_the_ticks_of_a_process_include_those_of_ended_children_on_this_system():
    burn = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass"]
    own = Path("/proc/self/stat")
    before = ticks_of_others([own.read_text()], ours=0)
    subprocess.run(burn, check=True)
    assert ticks_of_others([own.read_text()], ours=0) - before >= 0.2 * os.sysconf("SC_CLK_TCK")


def test_the_machine_and_its_shares_are_described_on_this_system():
    with Surroundings() as surroundings:
        pass
    shares = surroundings.describe()
    assert shares.keys() == {"others_share", "steal_share"}
    assert all(share is None or 0 <= share <= 1 for share in shares.values())
    assert "cores" in describe_machine()


def test_software_is_described_by_date_commit_and_versions(tmp_path):
    told = describe_software()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", told["date"])
    assert told["pipeline-broker"] == metadata.version("pipeline-broker")
    assert told["trio"] == trio.__version__
    assert "" not in told.values()
    assert source_commit(tmp_path) == ""


def test_the_commit_of_a_changed_checkout_is_marked(tmp_path):
    def git(*arguments):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", tmp_path, *identity, *arguments], check=True, capture_output=True)

    git("init")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-m", "one")
    git("tag", "v1")
    clean = source_commit(tmp_path)
    assert re.fullmatch("[0-9a-f]{12}", clean)
    (tmp_path / "file").write_text("two")
    assert source_commit(tmp_path) == f"{clean}-changed"
    (tmp_path / ".git/HEAD").unlink()
    assert source_commit(tmp_path) == ""
