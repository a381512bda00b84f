"""Files that a user names on a command line are read within limits, and their errors are one line."""

import os

import pytest

from pipeline_broker.base import owner_only
from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.sources import read_settings_file
from pipeline_broker.faults.rule_file import read_rules
from pipeline_broker.measure.experiment.broker_process import ExperimentError
from pipeline_broker.measure.experiment.sweep import read_sweep
from pipeline_broker.traces.ring_file import RingFileError
from pipeline_broker.traces.ring_file import read as read_ring

READERS = {
    "settings.toml": (read_settings_file, ConfigError),
    "rules.toml": (read_rules, UnavailableError),
    "sweep.toml": (read_sweep, ExperimentError),
    "requests.ring": (read_ring, OSError),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), lambda path: path.mkdir()])
def test_pipes_and_devices_are_refused_without_waiting(tmp_path, name, make):
    read, error = READERS[name]
    make(tmp_path / name)
    with pytest.raises(error, match="not a regular file") as refused:
        read(tmp_path / name)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", READERS)
def test_a_sparse_file_of_gibibytes_is_not_read(tmp_path, name):
    read, error = READERS[name]
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, 40 << 30)
    with pytest.raises(error, match="it has 42949672960 bytes"):
        read(tmp_path / name)


@pytest.mark.parametrize("name", ["settings.toml", "rules.toml", "sweep.toml"])
@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 20_000, "a = " + "9" * 5_000, ".".join(["a"] * 5_000) + " = 1"],
    ids=["deep", "long", "dotted"],
)
def test_toml_that_no_program_writes_is_one_line(tmp_path, name, text):
    read, error = READERS[name]
    (tmp_path / name).write_text(text)
    with pytest.raises(error) as refused:
        read(tmp_path / name)
    assert name in str(refused.value)
    assert len(str(refused.value)) < 1_000


def test_a_ring_with_a_deeply_nested_header_is_invalid(tmp_path):
    header = b"[" * 100_000
    (tmp_path / "a.ring").write_bytes(b"PBTRACE1" + len(header).to_bytes(4, "little") + header)
    with pytest.raises(RingFileError, match="the file header cannot be read"):
        read_ring(tmp_path / "a.ring")


def test_a_pipe_that_no_process_reads_is_refused_and_one_that_is_read_is_written(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="No such device"), open(path, "a", opener=owner_only.opener):
        pass
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with open(path, "a", encoding="utf-8", opener=owner_only.opener) as file:
            assert os.get_blocking(file.fileno())
            file.write("a line")
        assert os.read(reader, 100) == b"a line"
    finally:
        os.close(reader)
