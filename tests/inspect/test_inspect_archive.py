"""`inspect` shows the archive, and judges which parts are valid."""

import errno
import os
import stat
import tracemalloc

import pytest

from pipeline_broker.files.file_system import ReadOnlyFileSystem
from pipeline_broker.inspect.inspection import Inspection
from pipeline_broker.inspect.selection import Selection
from pipeline_broker.log.archive.manifest import Edit
from pipeline_broker.records.batch import NewRecord
from pipeline_broker.security.scram_users import ScramUsers, Upsertion
from tests.inspect.data_directory import (
    TOPIC_ID_TEXT,
    Data,
    archived,
    contents,
    json_of,
    of_type,
    run,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("archived")
    archived(path, segments=3)
    return path


def test_an_intact_archive_is_counted_and_ends_with_code_0(directory):
    result = run(directory)

    assert result.exit_code == 0, result.output
    assert "archive below LSN 59: 3 partitions, 5 segments, 59 batches, 117 records" in result.stdout
    assert "3 segments, 17 frames, 17 entries" in result.stdout
    assert "next LSN 66" in result.stdout


def test_the_data_directory_may_be_given_as_an_option_but_not_twice(directory):
    assert run("--data", directory).exit_code == 0
    assert run(directory, "--data", directory).exit_code == 2


def test_a_partition_shows_its_offsets_segments_and_producers(directory):
    first = next(line for line in of_type(json_of(directory), "partition") if line["folder"] == "events-0")

    assert (first["topic"], first["topic_id"], first["partition"]) == ("events", TOPIC_ID_TEXT, 0)
    assert (first["log_start_offset"], first["end_offset"], first["segments"], first["producers"]) == (0, 58, 2, 1)


def test_segments_and_indexes_are_those_of_the_files(directory):
    lines = json_of(directory)

    for segment in of_type(lines, "archive_segment"):
        assert segment["size_bytes"] == (directory / segment["file"]).stat().st_size
    indexes = [line for line in of_type(lines, "index") if line["size_bytes"]]
    assert {line["status"] for line in indexes} == {"valid"}
    for index in indexes:
        assert index["size_bytes"] == (directory / index["file"]).stat().st_size
        assert index["entries"] == index["size_bytes"] // (12 if index["file"].endswith("timeindex") else 8)


def test_the_edits_of_the_manifest_end_where_the_archive_does(directory):
    lines = json_of(directory, "--show", "frames")
    edits, (manifest,) = of_type(lines, "edit"), of_type(lines, "manifest")

    assert [edit["lsn"] for edit in edits] == sorted(edit["lsn"] for edit in edits)
    assert (edits[-1]["lsn"], len(edits)) == (manifest["lsn"], manifest["edits"])
    assert sum(edit["size_bytes"] for edit in edits) == manifest["size_bytes"]


def test_archived_segments_of_the_journal_and_reused_space_are_not_damage(directory):
    ends = of_type(json_of(directory), "segment_end")

    assert [end["is_archived"] for end in ends] == [True, False, False]
    assert [end["earlier_bytes"] > 0 for end in ends] == [False, True, False]


def test_every_record_is_in_the_archive_or_in_the_journal(directory):
    lines = json_of(directory, "--show", "records", "--topic", "events")
    lsn = lines[-1]["archived_lsn"]
    for partition in (0, 1):
        batches = [
            batch
            for batch in of_type(lines, "archived_batch", "entry")
            if batch["partition"] == partition and batch.get("lsn", lsn) >= lsn
        ]
        offsets = [record["offset"] for batch in batches for record in batch["records"]]
        assert offsets == list(range(len(offsets)))
        assert len(offsets) > 58


@pytest.mark.parametrize("topic", ["events", TOPIC_ID_TEXT])
def test_a_topic_a_partition_and_offsets_narrow_what_is_shown(directory, topic):
    arguments = ("--topic", topic, "--partition", "1", "--from-offset", "57", "--to-offset", "60")
    lines = json_of(directory, "--show", "records", *arguments)

    batches = of_type(lines, "archived_batch", "entry")
    assert {batch["partition"] for batch in batches} == {1}
    # the journal's first segment repeats archived entries
    offsets = [record["offset"] for batch in batches for record in batch["records"]]
    assert sorted(set(offsets)) == [57, 58, 59, 60]
    assert {line["folder"] for line in of_type(lines, "partition")} == {"events-1"}
    assert len(of_type(lines, "archive_segment")) == 1
    assert not of_type(lines, "edit", "frame")


def test_an_unknown_topic_is_reported_with_code_2(directory):
    result = run(directory, "--topic", "evnets")

    assert result.exit_code == 2
    assert "'evnets'" in result.stderr


def test_a_topic_in_the_journal_only_has_its_name(tmp_path):
    data = Data(tmp_path)
    data.fill(4)
    data.archive_all()
    (log,) = data.manager.create("young", bytes(reversed(range(16))), 1)
    data.note_topic("young", log.topic_id, 1)
    data.write(log, [NewRecord(b"value")])

    (entry,) = of_type(json_of(tmp_path, "--show", "records", "--topic", "young"), "entry")

    assert entry["topic"] == "young"
    assert entry["records"][0]["value"] == "value"


def test_every_depth_adds_lines(directory):
    depths = ("segments", "frames", "entries", "batches", "records")
    lengths = [len(run(directory, "--show", depth).stdout) for depth in depths]

    assert lengths == sorted(set(lengths))


def test_secrets_in_the_archived_metadata_partition_are_hidden(tmp_path):
    data = Data(tmp_path)
    _, write = ScramUsers().alter([], [Upsertion("bob", 1, 8192, b"the salt", b"a salted password of 32 bytes...")])
    data.write(data.metadata, [NewRecord(record.value, record.key) for record in write.records])
    data.archive_all()

    batches = of_type(json_of(tmp_path, "--show", "records"), "archived_batch")
    shown = run(tmp_path, "--show", "records").stdout

    values = [record["value"] for batch in batches for record in batch["records"]]
    assert "[hidden]" in values
    assert b"stored_key" in b"".join(contents(tmp_path / "archive").values())
    assert "stored_key" not in shown + "".join(values)


def test_remains_of_interrupted_writers_are_leftovers_not_damage(tmp_path):
    archived(tmp_path)
    archive, journal = tmp_path / "archive", tmp_path / "journal"
    (archive / "gone-0").mkdir()
    left = {
        "archive/manifest.writing": b"half",
        "archive/events-0/00000000000000000900.log": b"not named",
        "archive/events-0/00000000000000000000.log.cleaned": b"not named",
        "archive/gone-0/00000000000000000000.log": b"of a deleted topic",
        "archive/notes.txt": b"",
        "journal/preparing": b"half",
    }
    for name, content in left.items():
        (tmp_path / name).write_bytes(content)
    with (archive / "events-1" / "00000000000000000030.log").open("ab") as file:
        file.write(b"a round that was cut short")
    with (archive / "events-1" / "00000000000000000030.index").open("ab") as file:
        file.write(b"entry...")
    (journal / "spare").write_bytes(b"no header")

    result = run(tmp_path)
    found = {line["file"]: line["size_bytes"] for line in of_type(json_of(tmp_path), "leftover")}

    assert result.exit_code == 0, result.output
    grown = {"archive/events-1/00000000000000000030.log": 26, "archive/events-1/00000000000000000030.index": 8}
    assert found == {name: len(content) for name, content in left.items()} | grown | {"journal/spare": 9}
    assert "9 leftovers, which are ignored" in result.stdout


def test_nothing_is_written_and_files_that_may_only_be_read_are_enough(tmp_path):
    archived(tmp_path).close()
    paths = [path for path in tmp_path.rglob("*") if path.is_file()]
    for path in paths:
        path.chmod(stat.S_IRUSR)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes()) for path in paths}

    assert run(tmp_path, "--show", "records").exit_code == 0
    after = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path: (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes()) for path in after} == before


def test_the_file_system_of_a_reader_refuses_to_change_anything(tmp_path):
    (tmp_path / "file").write_bytes(b"content")
    files = ReadOnlyFileSystem()
    file = files.open(tmp_path / "file")
    other = tmp_path / "other"

    assert bytes(file.read(100, 0)) == b"content"
    changes = [
        lambda: file.write([b"x"], 0),
        lambda: file.truncate(0),
        lambda: files.make_directory(other),
        lambda: files.open(other, create=True),
        lambda: files.rename(tmp_path / "file", other),
        lambda: files.unlink(tmp_path / "file"),
        lambda: files.remove_directory(tmp_path),
        lambda: files.sync_directory(tmp_path),
        lambda: files.lock(other),
    ]
    for change in changes:
        with pytest.raises(OSError, match=r"Bad file|Invalid argument|Read-only"):
            change()
    assert contents(tmp_path) == {"file": b"content"}


def test_a_long_segment_is_read_in_bounded_memory(tmp_path):
    data = Data(tmp_path, segment_bytes=1 << 20, roll_bytes=1 << 30)
    for number in range(200):
        data.write(data.logs[0], [NewRecord(bytes(100_000), timestamp=number)])
    data.archive_all()
    data.close()
    assert (tmp_path / "archive/events-0/00000000000000000000.log").stat().st_size > 20_000_000

    tracemalloc.start()
    for _ in Inspection(tmp_path, Selection(depth="records")).findings():
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 8 << 20


def test_an_archive_of_no_edit_but_the_first_is_intact(tmp_path):
    data = Data(tmp_path)

    result = run(tmp_path)

    assert result.exit_code == 0, result.output
    assert "archive/manifest: archived below LSN 0, 0 partitions" in result.stdout
    data.close()


def test_offsets_deleted_before_archiving_are_not_missing(tmp_path):
    data = Data(tmp_path)
    data.fill(4)
    data.archive_all()
    data.fill(10, start=4)
    data.logs[0].raise_log_start(9)
    data.archive_all()
    data.fill(2, start=14)

    result = run(tmp_path)

    assert result.exit_code == 0, result.output
    assert "archived events-0: topic events (AAECAwQFBgcICQoLDA0ODw) partition 0, offsets 9..13" in result.stdout


def test_batches_of_a_deleted_topic_after_the_archive_are_not_damage(tmp_path):
    data = Data(tmp_path)
    data.fill(4)
    log = data.logs[0]
    data.archive_all()
    data.fill(4, start=4)
    data.archive.commit(Edit(data.archive.lsn, {log.entry_key: None}))
    store = data.archive.store
    store.delete_folder(log.folder, [f"{log.folder}/{name}" for name in store.names(log.folder)])
    assert run(tmp_path).exit_code == 1  # the records do not show the deletion of the topic yet

    data.write(data.metadata, [NewRecord(None, b"\0\1events")])

    assert run(tmp_path).exit_code == 0, run(tmp_path).output


@pytest.mark.parametrize("name", ["manifest", "00000000000000000000.log", "00000000000000000000.index"])
def test_a_file_that_may_not_be_read_gets_one_line_and_code_2(directory, monkeypatch, name):
    original = ReadOnlyFileSystem.open

    def refuse(self, path, *, create=False):
        if path.name == name:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return original(self, path, create=create)

    monkeypatch.setattr(ReadOnlyFileSystem, "open", refuse)
    result = run(directory)

    assert result.exit_code == 2
    assert f"{name} cannot be read: Permission denied" in result.stderr


def test_the_broker_s_own_records_are_shown_only_when_asked_for(directory):
    lines = json_of(directory, "--show", "records", "--topic", "events")

    assert {line["topic_id"] for line in of_type(lines, "archived_batch", "entry")} == {TOPIC_ID_TEXT}


@pytest.mark.parametrize("is_archived", [True, False])
def test_the_ends_of_transactions_are_shown_in_words(tmp_path, is_archived):
    data = Data(tmp_path)
    data.write_in_transaction(21, ends_with=True)
    data.write_in_transaction(22, ends_with=False)
    if is_archived:
        data.archive_all()

    text = run(tmp_path, "--show", "records", "--topic", "events").stdout
    assert text.count("transactional batch: 1 records") == 2
    assert text.count("transactional control batch: 1 records") == 2
    assert "commit of the producer's transaction, coordinator epoch 3" in text
    assert "abort of the producer's transaction, coordinator epoch 3" in text

    lines = of_type(json_of(tmp_path, "--show", "records", "--topic", "events"), "archived_batch", "entry")
    markers = {line["base_offset"]: line["markers"] for line in lines if "markers" in line}
    assert markers == {
        1: [{"is_commit": True, "coordinator_epoch": 3}],
        3: [{"is_commit": False, "coordinator_epoch": 3}],
    }


def test_a_partition_shows_its_open_transactions(tmp_path):
    data = Data(tmp_path)
    data.write_in_transaction(21, ends_with=True)
    for producer_id in range(22, 29):
        data.write_in_transaction(producer_id)
    data.archive_all()

    (partition,) = of_type(json_of(tmp_path, "--topic", "events"), "partition")
    expected = [{"producer_id": producer_id, "first_offset": producer_id - 20} for producer_id in range(22, 29)]
    assert (partition["open_transactions"], partition["producers"]) == (expected, 8)
    assert "open transactions: producer 22 from offset 2, producer 23 from offset 3" in run(tmp_path).stdout
    assert "producer 26 from offset 6 and 2 more" in run(tmp_path).stdout
