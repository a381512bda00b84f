"""`inspect` compares the mark of a clean shutdown with the data, like the next startup does."""

import shutil

import pytest

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.inspect.entry_check import EntryCheck
from pipeline_broker.inspect.findings import MarkFound, Superseded
from pipeline_broker.inspect.inspection import Inspection
from pipeline_broker.inspect.journal_reader import JournalReader
from pipeline_broker.inspect.manifest_reader import ManifestReader
from pipeline_broker.inspect.mark_reader import MarkReader
from pipeline_broker.inspect.selection import EVERYTHING
from pipeline_broker.inspect.topic_names import TopicNames
from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.errors import JournalCorrupt, ManifestDamaged
from pipeline_broker.log.journal.clean_shutdown import MARK_NAME
from pipeline_broker.log.journal.journal import Journal, JournalPorts
from pipeline_broker.log.journal.segment import segment_path
from tests.inspect.data_directory import Data, damages, json_of, of_type, run


@pytest.fixture(params=["journal", "journal and archive"])
def stopped(request, tmp_path):
    data = Data(tmp_path / "data", ports=JournalPorts(manifest_end=lambda: data.archive.manifest_end))
    data.fill(20)
    if request.param != "journal":
        data.archive_all()
        data.fill(3, start=20)
    data.close()
    return data.directory


def start(directory):
    journal = Journal.open(directory)
    try:
        clean = journal.clean_shutdown
        open_local_archive(directory, SystemFileSystem(), None if clean is None else clean.manifest)
        for _ in journal.recover():
            pass
    finally:
        journal.close()


def last_segment(directory):
    return max((directory / "journal").glob("*.segment"))


def test_a_mark_is_shown_and_nothing_is_wrong(stopped):
    (mark,) = of_type(json_of(stopped), "mark")
    (totals,) = of_type(json_of(stopped), "totals")
    assert mark["next_lsn"] == totals["next_lsn"]
    assert segment_path(stopped / "journal", mark["segment"]) == last_segment(stopped)
    assert mark["position"] == last_segment(stopped).stat().st_size
    assert not damages(stopped)
    result = run(stopped)
    assert result.exit_code == 0
    assert f"{MARK_NAME}: stopped cleanly after LSN {totals['next_lsn'] - 1}" in result.stdout


def test_a_journal_that_lost_its_end_is_damaged_like_for_the_next_startup(stopped):
    """Without the mark it would look like the end after a crash."""
    segment = last_segment(stopped)
    segment.write_bytes(segment.read_bytes()[:-100])
    (damage,) = of_type(json_of(stopped), "damage")
    assert damage["file"] == MARK_NAME
    assert "clean shutdown" in damage["reason"]
    assert run(stopped).exit_code == 1
    with pytest.raises(JournalCorrupt):
        start(stopped)
    (stopped / MARK_NAME).unlink()
    assert not damages(stopped)


def test_a_manifest_other_than_at_the_shutdown_is_damage_like_for_the_next_startup(stopped):
    manifest = stopped / "archive" / "manifest"
    with manifest.open("ab") as file:
        file.write(bytes(3))
    (damage,) = of_type(json_of(stopped), "damage")
    assert (damage["file"], "the manifest" in damage["reason"]) == (MARK_NAME, True)
    with pytest.raises(ManifestDamaged):
        start(stopped)


def test_other_damage_is_not_reported_twice(stopped):
    segment = last_segment(stopped)
    data = bytearray(segment.read_bytes())
    data[17] ^= 1  # of the header
    segment.write_bytes(data)
    assert len(damages(stopped)) == 1


@pytest.mark.parametrize("content", [b"", b"PBCLEAN1", bytes(100)])
def test_a_mark_that_was_cut_short_is_a_leftover(stopped, content):
    (stopped / MARK_NAME).write_bytes(content)
    (leftover,) = [line for line in of_type(json_of(stopped), "leftover") if line["file"] == MARK_NAME]
    assert leftover["size_bytes"] == len(content)
    assert not damages(stopped)


def test_a_directory_without_a_mark_has_no_finding_about_it(stopped):
    (stopped / MARK_NAME).unlink()
    assert not [line for line in json_of(stopped) if line.get("file") == MARK_NAME]


def test_a_mark_that_is_removed_or_changed_during_the_inspection_is_not_judged(stopped, tmp_path):
    """A broker may start and stop during the inspection."""
    files, copy = SystemFileSystem(), tmp_path / "copy"
    shutil.copytree(stopped, copy)
    for change in ((copy / MARK_NAME).unlink, lambda: (copy / MARK_NAME).write_bytes(b"another")):
        shutil.copyfile(stopped / MARK_NAME, copy / MARK_NAME)
        mark, manifests = MarkReader(files, copy), ManifestReader(files, copy)
        change()
        found = list(
            mark.findings(JournalReader(files, copy, manifests, EntryCheck(TopicNames(), EVERYTHING)), manifests)
        )
        assert found == [Superseded(MARK_NAME)]
    assert any(isinstance(found, MarkFound) for found in Inspection(stopped).findings())
