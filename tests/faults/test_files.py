"""Rules about files in memory: errors, delays, pauses, and a crash that undoes unsynced writes."""

import errno
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.faults.effects import Drop
from pipeline_broker.faults.faults import Faults
from pipeline_broker.faults.files import FaultyFiles
from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule import Choice, DiskCondition
from pipeline_broker.files.errors import SyncError
from tests.files.memory_file_system import MemoryFileSystem

JOURNAL = Path("/data/journal")
SECONDS_MAX = 20.0
LONG_SECONDS = 300.0


class CrashedError(Exception):
    """Replaces the end of the process."""


@pytest.fixture
def files():
    return FaultyFiles(MemoryFileSystem())


@pytest.fixture
def faults(files):
    return Faults(None, lambda: 0, lambda: None, files.disk)


def opened(files, name="1.segment", directory=JOURNAL):
    files.make_directory(directory)
    return files.open(directory / name, create=True)


def content(file):
    return bytes(file.read(1 << 16, 0))


def in_thread(work):
    """Run work in a thread; return a function that waits for its end."""
    ended = threading.Event()

    def run():
        work()
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    return ended


def wait_until(is_true):
    deadline = time.monotonic() + SECONDS_MAX
    while not is_true():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.001)


def test_a_sync_fails_with_sync_error_and_a_write_with_os_error(files, faults):
    file = opened(files)
    faults.disk_when("sync", nth=2).error("EIO")
    faults.disk_when("write", nth=2).error("ENOSPC")
    file.write([b"a"], 0)
    file.sync_data()
    with pytest.raises(SyncError, match="Input/output error") as failed:
        file.sync_data()
    assert failed.value.errno == errno.EIO
    with pytest.raises(OSError, match="No space left on device") as full:
        file.write([b"b"], 0)
    assert not isinstance(full.value, SyncError)
    file.write([b"b"], 0)
    assert content(file) == b"b"


def test_a_rule_about_the_journal_leaves_the_archive_alone(files, faults):
    archive = opened(files, "0.log", Path("/data/archive/t-0"))
    faults.disk_when("sync").error()
    archive.sync_data()
    faults.disk_when("sync", path="*/archive/*").error("EROFS")
    with pytest.raises(SyncError, match="Read-only file system"):
        archive.sync_data()


def test_a_paused_operation_starts_when_the_rule_is_released(files, faults):
    file = opened(files)
    rule = faults.disk_when("write").pause()
    ended = in_thread(lambda: file.write([b"a"], 0))
    wait_until(lambda: rule.hits == 1 and faults.held_by(rule.number))
    assert content(file) == b""
    assert faults.release(rule.number)
    assert ended.wait(SECONDS_MAX)
    assert content(file) == b"a"
    assert not faults.release(rule.number)


@pytest.mark.parametrize("end", ["remove", "end"])
@pytest.mark.parametrize("make", [lambda maker: maker.pause(), lambda maker: maker.delay(LONG_SECONDS)])
def test_a_held_operation_continues_when_its_rule_is_removed(files, faults, make, end):
    file = opened(files)
    rule = make(faults.disk_when("sync"))
    ended = in_thread(file.sync_data)
    wait_until(lambda: faults.held_by(rule.number))
    if end == "remove":
        faults.remove(rule.number)
    else:
        faults.end()
    assert ended.wait(SECONDS_MAX)
    assert not files.is_active


def test_a_delayed_operation_takes_that_long(files, faults):
    file = opened(files)
    faults.disk_when("sync", times=1).delay(0.05)
    began = time.monotonic()
    file.sync_data()
    assert time.monotonic() - began >= 0.05


def test_hold_commits_holds_later_commits(files, faults):
    file = opened(files)
    rule = faults.when("Produce").pause("commit")
    file.write([b"a"], 0)
    files.disk.hold_commits(rule.number)
    ended = in_thread(lambda: file.write([b"b"], 1))
    wait_until(lambda: faults.held_by(rule.number))
    assert content(file) == b"a"
    faults.release(rule.number)
    assert ended.wait(SECONDS_MAX)
    file.write([b"c"], 2)
    assert content(file) == b"abc"


def crash():
    raise CrashedError


@given(
    st.lists(
        st.one_of(st.just("sync"), st.tuples(st.integers(0, 20), st.binary(min_size=1, max_size=12))), max_size=12
    ),
    st.binary(max_size=10),
)
def test_a_crash_keeps_only_synced_writes(steps, before):
    files = FaultyFiles(MemoryFileSystem(), crash)
    file = opened(files)
    file.write([before], 0)
    Faults(None, lambda: 0, lambda: None, files.disk).disk_when("sync", nth=steps.count("sync") + 1).crash()
    model = durable = before
    for step in steps:
        if step == "sync":
            file.sync_data()
            durable = model
        else:
            position, data = step
            file.write([data[:1], data[1:]], position)
            model = model.ljust(position, b"\0")[:position] + data + model[position + len(data) :]
    with pytest.raises(CrashedError):
        file.sync_data()
    assert content(file) == durable


def test_a_crash_is_refused_in_a_shared_process(faults, files):
    with pytest.raises(FaultError, match="needs a broker with its own process"):
        faults.disk_when("sync").crash()
    with pytest.raises(FaultError, match="drop is not an effect on a file"):
        faults.add(DiskCondition(disk="sync"), Choice(), Drop())
    with pytest.raises(FaultError, match="a rule about files needs a data directory"):
        Faults(None, lambda: 0, lambda: None).disk_when("sync").error()


def test_files_without_rules_only_test_a_flag(files):
    file = opened(files)
    assert not files.is_active
    assert "disk" not in vars(files)
    file.write([b"a", b"b"], 0)
    file.sync_data()
    file.truncate(1)
    assert (content(file), file.size_bytes(), file.read_cached(1, 0)) == (b"a", 1, b"a")
    lock = files.lock(Path("/data/lock"))
    assert lock.is_in_place()
    assert files.list_directory(JOURNAL) == ["1.segment"]
