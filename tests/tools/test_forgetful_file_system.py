"""The forgetful file system keeps what was synced and may lose what was not; its disk fails as it is told to."""

import errno
import os
import signal
import socket
import stat
import subprocess
import sys

import pytest

from tests.tools.file_calls import errno_of, list_names, opened, sync_directory, write_durably
from tests.tools.forgetful_changes import STYLES

pytestmark = pytest.mark.faults
SEEDS = range(30)
WAIT_SECONDS_MAX = 20.0


# what survives


def test_a_socket_can_be_bound_and_reached_and_its_name_ends_with_the_power(mount):
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(mount.path / "s"))
        listener.listen()
        client.connect(str(mount.path / "s"))
        assert stat.S_ISSOCK((mount.path / "s").stat().st_mode)
        assert list_names(mount.path) == ["s"]
        mount.cut_and_power_on()
        assert list_names(mount.path) == []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(mount.path / "s"))
        (mount.path / "s").unlink()
        assert list_names(mount.path) == []


@pytest.mark.parametrize("style", STYLES)
def test_what_was_synced_survives_every_cut(mount, style):
    (mount.path / "d").mkdir()
    sync_directory(mount.path)
    write_durably(mount.path / "d" / "a", b"x" * 10_000)

    losses = mount.cut_and_power_on(0, style)

    assert (losses.bytes_at_risk, losses.names_at_risk) == (0, 0)
    assert (mount.path / "d" / "a").read_bytes() == b"x" * 10_000


def test_data_that_was_not_synced_may_be_lost_or_not_and_is_counted(mount):
    write_durably(mount.path / "a", b"kept")
    with opened(mount.path / "a") as descriptor:
        os.pwrite(descriptor, b"lost!", 4)
    assert mount.ask("at_risk") == [5, 0]
    losses = mount.cut_and_power_on(style="nothing")
    assert (losses.bytes_at_risk, losses.bytes_kept) == (5, 0)
    assert (mount.path / "a").read_bytes() == b"kept"
    with opened(mount.path / "a") as descriptor:
        os.pwrite(descriptor, b"luck", 4)
    assert mount.cut_and_power_on(style="everything").bytes_kept == 4
    assert (mount.path / "a").read_bytes() == b"keptluck"


def test_a_synced_file_whose_directory_was_not_synced_may_vanish(mount):
    with opened(mount.path / "a", os.O_RDWR | os.O_CREAT) as descriptor:
        os.write(descriptor, b"data")
        os.fsync(descriptor)
    losses = mount.cut_and_power_on(style="nothing")
    assert (losses.bytes_at_risk, losses.names_at_risk, losses.names_kept) == (0, 1, 0)
    assert list_names(mount.path) == []


def test_every_change_of_names_is_undone_unless_its_directory_was_synced(mount):
    for name in "abcd":
        write_durably(mount.path / name, name.encode())
    (mount.path / "old").mkdir()
    sync_directory(mount.path)
    before = list_names(mount.path)
    (mount.path / "a").rename(mount.path / "e")
    (mount.path / "b").rename(mount.path / "c")
    (mount.path / "d").unlink()
    (mount.path / "new").mkdir()
    (mount.path / "new" / "file").touch()
    (mount.path / "old").rmdir()
    assert list_names(mount.path) == ["c", "e", "new"]

    assert mount.cut_and_power_on(style="nothing").names_at_risk == 6

    assert list_names(mount.path) == before
    assert {name: (mount.path / name).read_bytes() for name in "abcd"} == {name: name.encode() for name in "abcd"}


def test_changes_of_names_stay_when_their_directory_was_synced(mount):
    for name in "abcd":
        write_durably(mount.path / name, name.encode())
    (mount.path / "a").rename(mount.path / "e")
    (mount.path / "b").rename(mount.path / "c")
    (mount.path / "d").unlink()
    (mount.path / "new").mkdir()
    (mount.path / "new" / "file").touch()
    sync_directory(mount.path)

    mount.cut_and_power_on(style="nothing")

    assert list_names(mount.path) == ["c", "e", "new"]
    assert (mount.path / "c").read_bytes() == b"b"
    assert (mount.path / "e").read_bytes() == b"a"
    assert list_names(mount.path / "new") == [], "that directory was not synced itself"


def test_a_second_name_is_refused_where_there_is_one_and_durable_when_its_directory_was_synced(mount):
    for name in ("writing", "objects"):
        (mount.path / name).mkdir()
    sync_directory(mount.path)
    write_durably(mount.path / "writing" / "1", b"data")
    for is_synced in (False, True):
        (mount.path / "objects" / "a").hardlink_to(mount.path / "writing" / "1")
        with pytest.raises(FileExistsError):
            (mount.path / "objects" / "a").hardlink_to(mount.path / "writing" / "1")
        assert (mount.path / "objects" / "a").read_bytes() == b"data"
        if is_synced:
            sync_directory(mount.path / "objects")
        mount.cut_and_power_on(style="nothing")
        assert list_names(mount.path / "objects") == ["a"] * is_synced
    (mount.path / "writing" / "1").unlink()
    assert (mount.path / "objects" / "a").read_bytes() == b"data"


def test_a_rename_between_directories_is_there_as_a_whole_or_not_at_all(mount):
    for name in ("from", "to"):
        (mount.path / name).mkdir()
    sync_directory(mount.path)
    write_durably(mount.path / "from" / "a", b"data")
    outcomes = set()
    for seed in SEEDS:
        (mount.path / "from" / "a").rename(mount.path / "to" / "a")
        mount.cut_and_power_on(seed, "subset")
        outcomes.add(found := (*list_names(mount.path / "from"), *list_names(mount.path / "to")))
        assert found == ("a",)
        if (mount.path / "to" / "a").exists():
            (mount.path / "to" / "a").rename(mount.path / "from" / "a")
            sync_directory(mount.path / "from")
    assert mount.ask("at_risk") == [0, 0], "syncing one of the two directories was enough"


def test_a_truncation_is_undone_unless_the_file_was_synced(mount):
    write_durably(mount.path / "a", b"0123456789")
    os.truncate(mount.path / "a", 4)
    assert (mount.path / "a").read_bytes() == b"0123"
    mount.cut_and_power_on(style="nothing")
    assert (mount.path / "a").read_bytes() == b"0123456789"
    with opened(mount.path / "a") as descriptor:
        os.ftruncate(descriptor, 4)
        os.ftruncate(descriptor, 6)
        os.fdatasync(descriptor)
    mount.cut_and_power_on(style="nothing")
    assert (mount.path / "a").read_bytes() == b"0123\0\0"


def test_a_synchronous_write_needs_no_sync(mount):
    write_durably(mount.path / "a", b"")
    with opened(mount.path / "a", os.O_RDWR | os.O_DSYNC) as descriptor:
        os.pwrite(descriptor, b"one", 0)
    with opened(mount.path / "a") as descriptor:
        os.pwritev(descriptor, [b"t", b"wo"], 3, os.RWF_DSYNC)
    mount.cut_and_power_on(style="nothing")
    assert (mount.path / "a").read_bytes() == b"onetwo"


def test_writes_are_torn_at_the_sectors_of_the_disk(mount):
    write_durably(mount.path / "a", bytes(20_000))
    sizes = set()
    for seed in SEEDS:
        with opened(mount.path / "a") as descriptor:
            os.pwrite(descriptor, b"x" * 12_000, 700)
        mount.cut_and_power_on(seed, "torn")
        data = (mount.path / "a").read_bytes()
        borders = [at for at in range(1, len(data)) if data[at] != data[at - 1]]
        assert all(at % 512 == 0 or at in {700, 12_700} for at in borders)
        sizes.add(4096 if borders and all(at % 4096 == 0 or at in {700, 12_700} for at in borders) else 512)
        write_durably(mount.path / "a", bytes(20_000))
    assert sizes == {512, 4096}


def survivors_of_three_files(mount, seed, style):
    for name in "abc":
        write_durably(mount.path / name, b"")
    for turn in b"12345":
        for name in "abc":
            with opened(mount.path / name, os.O_WRONLY | os.O_APPEND) as descriptor:
                os.write(descriptor, bytes([turn]))
    mount.cut_and_power_on(seed, style)
    left = [(mount.path / name).read_bytes() for name in "abc"]
    for name in "abc":
        (mount.path / name).unlink()
    return left


def test_a_prefix_is_the_beginning_of_what_happened_to_all_files(mount):
    lengths = set()
    for seed in SEEDS:
        left = survivors_of_three_files(mount, seed, "prefix")
        assert all(b"12345".startswith(data) for data in left)
        sizes = [len(data) for data in left]
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] - sizes[-1] <= 1
        lengths.add(sum(sizes))
    assert len(lengths) > len(SEEDS) // 4


def test_of_a_subset_later_writes_may_be_there_without_earlier_ones(mount):
    left = [data for seed in SEEDS for data in survivors_of_three_files(mount, seed, "subset")]
    assert any(data[-1:] == b"5" and b"\0" in data for data in left)


def test_a_seed_says_what_survives(mount):
    assert survivors_of_three_files(mount, "7", None) == survivors_of_three_files(mount, "7", None)
    assert len({tuple(survivors_of_three_files(mount, seed, None)) for seed in SEEDS}) > len(SEEDS) // 4


# the power


def test_without_power_everything_is_an_error_and_what_was_open_before_stays_one(mount):
    write_durably(mount.path / "a", b"data")
    with opened(mount.path / "a") as descriptor:
        mount.cut(0)
        for call in (os.listdir, os.stat, os.mkdir, os.unlink):
            assert errno_of(call, mount.path / "a") == errno.EIO
        assert errno_of(os.open, mount.path / "b", os.O_CREAT | os.O_RDWR) == errno.EIO
        mount.power_on()
        assert (mount.path / "a").read_bytes() == b"data"
        assert errno_of(os.pread, descriptor, 1, 0) == errno.EIO
        assert errno_of(os.pwrite, descriptor, b"x", 0) == errno.EIO
        assert errno_of(os.fdatasync, descriptor) == errno.EIO
        assert errno_of(os.ftruncate, descriptor, 0) == errno.EIO
    assert (mount.path / "a").read_bytes() == b"data"


def test_a_cut_may_come_with_the_nth_sync(mount):
    write_durably(mount.path / "a", b"")
    mount.add_fault("sync", "/a", cut_seed=1, skip_count=2)
    with opened(mount.path / "a") as descriptor:
        for number in range(2):
            os.pwrite(descriptor, b"x", number)
            os.fdatasync(descriptor)
        assert mount.ask("losses") is None
        os.pwrite(descriptor, b"y" * 100, 2)
        assert errno_of(os.fdatasync, descriptor) == errno.EIO
    assert mount.ask("losses")["bytes_at_risk"] == 100
    mount.power_on()
    assert (mount.path / "a").read_bytes().startswith(b"xx")


def test_a_disk_that_hangs_ends_no_call_before_the_power_goes(mount):
    write_durably(mount.path / "a", b"data")
    mount.ask("hang")
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; open(sys.argv[1])", mount.path / "a"], stderr=subprocess.PIPE
    ) as child:
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(0.5)
        mount.cut(0)
        assert b"Input/output error" in child.communicate(timeout=WAIT_SECONDS_MAX)[1]


def test_nothing_stays_mounted_when_its_process_is_killed(mount):
    assert os.path.ismount(mount.path)
    os.kill(mount.process_id, signal.SIGKILL)
    mount.close()
    assert not os.path.ismount(mount.path)
    assert list_names(mount.path) == []


# faults


def test_after_a_failed_sync_what_can_be_read_is_lost_and_each_open_file_is_told_once(mount):
    write_durably(mount.path / "a", b"....")
    with opened(mount.path / "a") as one, opened(mount.path / "a") as other:
        mount.add_fault("sync", error="EIO", hit_count_max=1)
        os.pwrite(one, b"lost", 0)
        assert errno_of(os.fdatasync, one) == errno.EIO
        os.fdatasync(one)
        assert errno_of(os.fdatasync, other) == errno.EIO
        os.fdatasync(other)
        os.pwrite(one, b"kept", 4)
        os.fdatasync(one)
        assert os.pread(one, 10, 0) == b"lostkept"
    mount.cut_and_power_on(style="everything")
    assert (mount.path / "a").read_bytes() == b"....kept"


def test_syncs_may_fail_for_some_files_always(mount):
    mount.add_fault("sync", "*/bad*", error="EIO")
    with opened(mount.path / "bad", os.O_RDWR | os.O_CREAT) as bad, opened(mount.path / "a", os.O_CREAT) as good:
        assert [errno_of(os.fsync, bad) for _ in range(3)] == [errno.EIO] * 3
        os.fsync(good)
    assert mount.ask("hits") == [3]


def test_a_directory_may_fail_to_sync(mount):
    mount.add_fault("sync directory", "/", error="EIO", hit_count_max=1)
    (mount.path / "a").touch()
    assert errno_of(sync_directory, mount.path) == errno.EIO
    mount.cut_and_power_on(style="nothing")
    assert list_names(mount.path) == []


SYNCING = "import os, sys; os.fsync(os.open(sys.argv[1], os.O_RDWR)); print('synced')"


def test_a_slow_sync_delays_its_caller_only_and_proves_nothing_before_its_end(mount):
    write_durably(mount.path / "slow", b"")
    (mount.path / "slow").write_bytes(b"data")
    mount.add_fault("sync", "/slow", delay_seconds=WAIT_SECONDS_MAX)
    with subprocess.Popen(
        [sys.executable, "-c", SYNCING, mount.path / "slow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        while mount.ask("hits") == [0]:
            assert child.poll() is None
        write_durably(mount.path / "other", b"data")
        assert (mount.path / "slow").read_bytes() == b"data"
        assert mount.ask("at_risk") == [4, 0]
        mount.ask("clear_faults")
        assert child.communicate(timeout=WAIT_SECONDS_MAX)[0] == b"synced\n"
    assert mount.ask("at_risk") == [0, 0]


def test_a_cut_during_a_slow_sync_fails_it(mount):
    write_durably(mount.path / "slow", b"")
    (mount.path / "slow").write_bytes(b"data")
    mount.add_fault("sync", delay_seconds=WAIT_SECONDS_MAX)
    with subprocess.Popen(
        [sys.executable, "-c", SYNCING, mount.path / "slow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        while mount.ask("hits") == [0]:
            assert child.poll() is None
        assert mount.cut(0, "nothing").bytes_at_risk == 4
        assert b"Input/output error" in child.communicate(timeout=WAIT_SECONDS_MAX)[1]


@pytest.mark.parametrize(("operation", "call"), [("read", "pread"), ("write", "pwrite")])
def test_reads_and_writes_fail_by_their_path(mount, operation, call):
    for name in ("a", "b"):
        write_durably(mount.path / name, b"data")
    mount.add_fault(operation, "/a", error="EIO", skip_count=1)
    argument = 4 if operation == "read" else b"data"
    with opened(mount.path / "a") as bad, opened(mount.path / "b") as good:
        getattr(os, call)(bad, argument, 0)
        assert errno_of(getattr(os, call), bad, argument, 0) == errno.EIO
        getattr(os, call)(good, argument, 0)
        mount.ask("clear_faults")
        getattr(os, call)(bad, argument, 0)


def test_a_full_disk_takes_what_fits_and_goes_on_when_there_is_space(mount):
    write_durably(mount.path / "a", b"x" * 5_000)
    mount.ask("set_capacity", size_bytes=8_192)
    assert os.statvfs(mount.path).f_bavail * os.statvfs(mount.path).f_frsize <= 3_192
    with opened(mount.path / "a") as descriptor:
        assert os.pwrite(descriptor, b"y" * 5_000, 5_000) == 3_192
        assert errno_of(os.pwrite, descriptor, b"y", 8_192) == errno.ENOSPC
        assert errno_of(os.ftruncate, descriptor, 9_000) == errno.ENOSPC
        assert os.pwrite(descriptor, b"z" * 100, 0) == 100, "there is room already for what is overwritten"
        mount.ask("set_capacity", size_bytes=None)
        assert os.pwrite(descriptor, b"y" * 1_808, 8_192) == 1_808
    assert (mount.path / "a").read_bytes() == b"z" * 100 + b"x" * 4_900 + b"y" * 5_000


def test_an_unlinked_file_takes_space_until_it_is_closed(mount):
    mount.ask("set_capacity", size_bytes=4_096)
    with opened(mount.path / "a", os.O_RDWR | os.O_CREAT) as descriptor:
        os.write(descriptor, bytes(4_096))
        (mount.path / "a").unlink()
        (mount.path / "b").touch()
        with opened(mount.path / "b") as other:
            assert errno_of(os.write, other, b"x") == errno.ENOSPC
    (mount.path / "b").write_bytes(bytes(4_096))


def test_a_misdirected_write_is_found_after_the_power_was_off(mount):
    write_durably(mount.path / "a", b"." * 30)
    mount.add_fault("write", "/a", shift_bytes=10, skip_count=1, hit_count_max=1)
    with opened(mount.path / "a") as descriptor:
        for number in range(3):
            os.pwrite(descriptor, b"%d" % number * 3, number * 3)
        os.fdatasync(descriptor)
        assert os.pread(descriptor, 30, 0) == b"000111222" + b"." * 21
    mount.cut_and_power_on()
    assert (mount.path / "a").read_bytes() == b"000...222" + b"...." + b"111" + b"." * 14


def test_a_misdirected_read_gives_other_bytes(mount):
    write_durably(mount.path / "a", b"0123456789")
    mount.add_fault("read", "/a", shift_bytes=4, hit_count_max=1)
    with opened(mount.path / "a") as descriptor:
        assert [os.pread(descriptor, 2, 0) for _ in range(2)] == [b"45", b"01"]
