"""Directories with foreign files, pipes and very long files: the report is one line, or a few."""

import os

import pytest

from pipeline_broker.inspect.leftovers import NAMED_MAX
from pipeline_broker.log.journal.segment import segment_path
from tests.inspect.data_directory import Data, json_of, of_type, run


@pytest.fixture
def directory(tmp_path):
    data = Data(tmp_path / "data")
    data.fill(6)
    data.archive_all()
    data.fill(4, start=6)
    data.close()
    return tmp_path / "data"


def last_segment(directory):
    return max((directory / "journal").glob("*.segment"))


@pytest.mark.parametrize("name", ["archive/manifest", "clean-shutdown", "archive-store", "journal/*.segment"])
@pytest.mark.parametrize("kind", ["pipe", "device", "outside"])
def test_pipes_and_devices_with_names_of_files_are_refused_in_one_line(directory, name, kind):
    path = last_segment(directory) if "*" in name else directory / name
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to({"device": "/dev/zero", "outside": "/etc/passwd"}[kind])
    result = run(directory)
    assert result.exit_code == 2
    assert path.name in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("size_gib", [2, 40])
def test_a_sparse_segment_of_gibibytes_is_refused_or_read_over_its_holes(directory, size_gib):
    before = run(directory, "--show", "records").stdout
    os.truncate(last_segment(directory), size_gib << 30)
    result = run(directory, "--show", "records")
    if size_gib == 40:
        assert result.exit_code == 2
        assert "has 42949672960 bytes, but a segment has at most" in result.stderr
    else:
        assert result.exit_code == 0, result.output
        assert [line for line in result.stdout.splitlines() if "value" in line] == [
            line for line in before.splitlines() if "value" in line
        ]


@pytest.mark.parametrize("folder", ["journal", "archive", "archive/events-0"])
def test_thousands_of_foreign_files_are_counted_and_some_are_named(directory, folder):
    for number in range(NAMED_MAX + 50):
        (directory / folder / f"stray-{number:04d}").touch()
    found = of_type(json_of(directory), "leftover")
    assert len(found) == NAMED_MAX + 1
    assert (found[-1]["file"], found[-1]["reason"]) == (folder, "50 more files, which are ignored")


def test_names_that_are_not_text_are_shown_and_are_not_segments(directory):
    for name in (b"\xff.segment", b"new\nline.segment", b"9.segment"):
        (directory / "journal" / os.fsdecode(name)).write_bytes(b"stray")
    result = run(directory)
    assert result.exit_code == 0, result.output
    assert len(of_type(json_of(directory), "leftover")) == 3
    assert segment_path(directory / "journal", 9).name not in result.output
    assert all(line.isprintable() for line in result.output.splitlines())
