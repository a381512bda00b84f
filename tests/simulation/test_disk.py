"""The disk of a simulated broker after a power cut."""

from pathlib import Path

from tests.simulation.disk import SimulatedDisk

DIRECTORY = Path("/data")


def write(files, name, data):
    file = files.open(DIRECTORY / name, create=True)
    file.write([data], 0)
    file.sync_data()
    files.sync_directory(DIRECTORY)


def test_a_process_without_power_writes_nothing_that_the_next_one_reads():
    disk = SimulatedDisk(0, is_cold=False)
    before = disk.files
    write(before, "early", b"1")
    disk.power_cut()
    write(before, "late", b"2")
    before.rename(DIRECTORY / "early", DIRECTORY / "renamed")
    assert disk.files.list_directory(DIRECTORY) == ["early"]
    assert disk.files.open(DIRECTORY / "early").read(2, 0) == b"1"
