"""Permissions of files that the broker creates, also with an open umask."""

import os
import re
import shlex
import stat
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from pipeline_broker.base import owner_only
from pipeline_broker.cli import main
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.local.local_archive import ARCHIVE_NAME
from pipeline_broker.log.journal.clean_shutdown import MARK_NAME

OPEN_UMASK = ("sh", "-c", 'umask 000 && exec "$@"', "sh")
SMALL = {"segment.bytes": "1048576", "cleanup.policy": "compact,delete", "retention.ms": "3600000"}
RECORDS = 60
WAIT_SECONDS = 20


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def modes(path):
    """Return the modes of a path and everything below it, without symbolic links."""
    found = {}
    for folder, _, names in os.walk(path):
        for each in (Path(folder), *(Path(folder, name) for name in names)):
            found[str(each)] = each.lstat().st_mode
    return found


def open_to_others(*paths):
    return {each: oct(mode) for path in paths for each, mode in modes(path).items() if stat.S_IMODE(mode) & 0o077}


def load(broker):
    """Write records to a compacted, archived topic, and create a group."""
    import confluent_kafka as ck
    import confluent_kafka.admin as cka

    place = {"bootstrap.servers": broker.bootstrap}
    admin = cka.AdminClient(place)
    if "t" not in admin.list_topics(timeout=WAIT_SECONDS).topics:
        admin.create_topics([cka.NewTopic("t", 2, 1, config=SMALL)])["t"].result(WAIT_SECONDS)
    producer = ck.Producer({**place, "linger.ms": 0, "batch.num.messages": 1})
    for number in range(RECORDS):
        producer.produce("t", f"{number}".ljust(30_000, "."), f"key {number % 3}")
    assert producer.flush(WAIT_SECONDS) == 0
    consumer = ck.Consumer({**place, "group.id": "g"})
    consumer.commit(offsets=[ck.TopicPartition("t", 0, 1)], asynchronous=False)
    consumer.close()
    result = CliRunner().invoke(main, ["compact", "--data", str(broker.data)])
    assert (result.exit_code, result.output) == (0, "compacted\n")


def test_only_the_owner_has_access_to_all_files_through_load_compaction_and_restarts(broker_process, tmp_path):
    data, trace = tmp_path / "new" / "data", tmp_path / "traces" / "one"
    log, telemetry = tmp_path / "requests.log", tmp_path / "telemetry.json"
    options = {
        "data": data,
        "prefix": OPEN_UMASK,
        "arguments": ("--trace", str(trace), "--request-log", str(log)),
        "settings": (f"pipeline.telemetry.file={telemetry}",),
    }
    made = (data.parent, trace.parent, log)
    for is_killed in (True, False):
        broker = broker_process(**options)
        load(broker)
        assert (data / "admin.socket").is_socket()
        assert open_to_others(*made) == {}
        if is_killed:
            broker.kill()
            (data / "admin.socket").unlink()
        else:
            broker.stop()
        assert broker.stderr == ""
        assert open_to_others(*made) == {}
    names = {os.path.relpath(each, data) for each in modes(data)}
    assert {ARCHIVE_NAME, MARK_NAME, ".lock", f"{ARCHIVE_NAME}/manifest"} <= names
    assert any(re.match(rf"{ARCHIVE_NAME}/[^/]*/.*\.log$", name) for name in names), names


def test_an_existing_directory_with_wider_access_is_reported_once_and_unchanged(broker_process, tmp_path):
    data = tmp_path / "it's wide"
    data.mkdir()
    data.chmod(0o750)
    broker = broker_process(data=data)
    broker.stop()
    quoted = "'" + str(data).replace("'", "'\"'\"'") + "'"
    (line,) = broker.stderr.splitlines()
    assert line.endswith(f"other users may read {data}. Run chmod -R go-rwx {quoted} to revoke their access")
    assert stat.S_IMODE(data.stat().st_mode) == 0o750


def test_created_parent_directories_are_private_too(open_umask, tmp_path):
    SystemFileSystem().make_directory(tmp_path / "a" / "b" / "c")
    owner_only.make_directories(tmp_path / "d" / "e")
    assert open_to_others(tmp_path) == {}


def test_existing_files_keep_their_mode(open_umask, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o755)
    SystemFileSystem().make_directory(shared / "data")
    owner_only.make_directories(shared / "traces")
    assert list(open_to_others(tmp_path)) == [str(shared)]
    assert owner_only.is_open_to_others(shared)
    assert not owner_only.is_open_to_others(shared / "data")


@pytest.mark.parametrize(("mode", "is_exposed"), [(0o600, False), (0o640, True), (0o604, True), (0o400, False)])
def test_a_warning_about_a_file_with_secrets_names_its_mode_and_the_command(tmp_path, mode, is_exposed):
    file = tmp_path / "it's secret"
    file.write_text("secret")
    file.chmod(mode)
    change = "chmod 600 " + shlex.quote(str(file))
    warning = f"other users may read {file} (mode {mode:04o}). Run {change}"
    assert owner_only.exposure(file) == (warning if is_exposed else None)
    if is_exposed:
        subprocess.run(["sh", "-c", change], check=True)
        assert owner_only.exposure(file) is None


@pytest.mark.parametrize(("mode", "is_exposed"), [(0o640, False), (0o644, True)])
def test_a_file_of_another_user_may_be_shared_with_the_group(tmp_path, monkeypatch, mode, is_exposed):
    file = tmp_path / "secret"
    file.write_text("secret")
    file.chmod(mode)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    warning = f"other users may read {file} (mode {mode:04o}). Run chmod o-rwx {file}"
    assert owner_only.exposure(file) == (warning if is_exposed else None)


def test_nothing_is_said_of_what_is_no_file(tmp_path):
    assert [owner_only.exposure(Path(each)) for each in (tmp_path, tmp_path / "missing", "/dev/null", "a\0b")] == [
        None
    ] * 4
