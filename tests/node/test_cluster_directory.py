"""The directory of a single broker becomes that of a cluster and back, whatever step a crash interrupts."""

from pathlib import Path

import pytest

from pipeline_broker.node.cluster_directory import become_cluster, become_single, brokers_in
from pipeline_broker.node.errors import StartError

FILES = {"journal/1": b"j", "archive/local/2": b"a", "clean-shutdown": b"c"}


class Crash(Exception):
    pass


def fill(directory):
    for name, content in FILES.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (directory / ".lock").write_bytes(b"1\n")


def content(directory):
    found = {str(it.relative_to(directory)): it.read_bytes() for it in directory.rglob("*") if it.is_file()}
    return {name: data for name, data in found.items() if Path(name).name != ".lock"}


@pytest.fixture
def crash_at(monkeypatch):
    """Return a function that makes the n-th rename from now on fail before its effect."""
    rename, left = Path.rename, []

    def crashing(self, target):
        if left:
            left[0] -= 1
            if left[0] < 0:
                raise Crash
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", crashing)

    def begin(number):
        left[:] = [] if number is None else [number]

    return begin


@pytest.mark.parametrize("crash", range(6))
def test_a_crash_loses_no_file_on_the_way_to_a_cluster(tmp_path, crash_at, crash):
    fill(tmp_path)
    crash_at(crash)
    try:
        assert become_cluster(tmp_path, 2)
    except Crash:
        crash_at(None)
        assert become_cluster(tmp_path, 2)
    assert content(tmp_path) == {f"1/{name}": data for name, data in FILES.items()}
    assert brokers_in(tmp_path) == [1]
    assert not become_cluster(tmp_path, 3), "once is enough"


@pytest.mark.parametrize("crash", range(6))
def test_a_crash_loses_no_file_on_the_way_back(tmp_path, crash_at, crash):
    fill(tmp_path)
    become_cluster(tmp_path, 2)
    crash_at(crash)
    try:
        become_single(tmp_path)
    except Crash:
        crash_at(None)
        become_single(tmp_path)
    assert content(tmp_path) == FILES
    become_single(tmp_path)
    assert content(tmp_path) == FILES


def test_fewer_brokers_than_have_data_are_refused(tmp_path):
    for number in (1, 2, 3):
        fill(tmp_path / str(number))
    with pytest.raises(StartError, match="--brokers 3 or more"):
        become_cluster(tmp_path, 2)
    with pytest.raises(StartError, match="--brokers 3"):
        become_single(tmp_path)
    assert not become_cluster(tmp_path, 4)


def test_an_empty_directory_stays_empty(tmp_path):
    assert not become_cluster(tmp_path, 2)
    become_single(tmp_path)
    become_single(tmp_path / "missing")
    assert list(tmp_path.iterdir()) == []
