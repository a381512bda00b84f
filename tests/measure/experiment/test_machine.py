"""The description of the machine and its load around a run."""

import re
import subprocess
from importlib import metadata

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


def test_a_block_has_load_averages_around_it():
    with Surroundings() as surroundings:
        pass
    told = surroundings.describe()
    assert told.keys() == {"load_average_before", "load_average_after", "steal_share"}
    assert told["load_average_before"] >= 0
    assert told["load_average_after"] >= 0
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
