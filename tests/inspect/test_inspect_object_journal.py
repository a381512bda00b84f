"""A journal in a store is shown and verified across all owners, named by its store or by a data directory."""

import pytest
from click.testing import CliRunner

from pipeline_broker.commands.inspect import inspect
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.inspect.findings import Damage, Leftover, Superseded
from pipeline_broker.inspect.inspection import Inspection
from pipeline_broker.inspect.object_journal import ObjectJournalBytes
from pipeline_broker.inspect.selection import Selection
from pipeline_broker.inspect.stored_logs import read_logs
from pipeline_broker.inspect.stored_range import stored_ranges
from pipeline_broker.log.archive.local.archive_place import ArchivePlace
from pipeline_broker.objects.boundary import read_boundary
from pipeline_broker.objects.directory_store import DirectoryStore
from pipeline_broker.objects.fenced_log import Place, place_of, slot_name
from pipeline_broker.objects.slot import FENCE_SIZE
from pipeline_broker.objects.store import list_all
from tests.inspect.data_directory import Data, json_of, of_type, run
from tests.pyspark_pipeline_broker.stored_rows import offsets, planned, rows, rows_of


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path / 'store'}"


@pytest.fixture
def data(tmp_path):
    """Return two owners' commits; the oldest are archived and deleted, and the second owner keeps running."""
    first = Data(tmp_path / "first", store=tmp_path / "store", wal="objects")
    first.fill(12, b"long" * 300)
    first.archive_all()
    first.fill(5, start=12)
    first.close()
    first.archive.close()
    second = Data(tmp_path / "second", store=tmp_path / "store", wal="objects")
    second.fill(6, start=17)
    yield second
    second.close()
    second.archive.close()


@pytest.fixture
def store(data, tmp_path):
    return DirectoryStore(SystemFileSystem(), tmp_path / "store")


def slots(store):
    found = [(place_of("wal/1", each.name), each.size_bytes) for each in list_all(store, "wal/1/")]
    return [place for place, size in found if place is not None and size != FENCE_SIZE]


def findings(url, kind):
    stored = ArchivePlace(url, 1, "objects")
    return [found for found in Inspection(stored, Selection(depth="records")).findings() if isinstance(found, kind)]


def test_a_store_alone_and_a_directory_that_names_it_show_the_same(data, url):
    by_store = CliRunner().invoke(inspect, ["--store", url, "--show", "records"])
    by_directory = run(data.directory, "--show", "records")
    assert (by_store.exit_code, by_directory.exit_code) == (0, 0), by_store.output
    assert by_store.output == by_directory.output
    assert "generation 1: slots " in by_store.output
    assert "generation 2: slots " in by_store.output
    assert by_store.output.splitlines()[-1].startswith("intact: 2 segments, 11 frames, 11 entries, 22 records")


def test_the_report_shows_the_written_records(data, store):
    found = json_of(data.directory, "--show", "records")
    generations = of_type(found, "generation")
    assert [(each["generation"], each["slots"], each["entries"]) for each in generations] == [(1, 5, 5), (2, 6, 6)]
    assert [each["slot"] for each in of_type(found, "slot")] == [place.slot for place in slots(store)]
    written = {
        partition: [each["offset"] for line in of_type(found, "archived_batch", "entry") for each in line["records"]
                    if line["topic"] == "events" and line["partition"] == partition]
        for partition in (0, 1)
    }  # fmt: skip
    assert written == {0: list(range(24)), 1: list(range(22))}
    (totals,) = of_type(found, "totals")
    assert totals["next_lsn"] == data.journal.next_lsn
    assert totals["archived_records"] == 24 + 1


def test_a_missing_or_changed_commit_is_damage(data, store, url):
    first, *_, last = slots(store)
    name = slot_name("wal/1", Place(first.generation, first.slot + 2))
    content = bytearray(store.read(name, 0, 1 << 20).data)
    store.delete([name])
    (damage,) = findings(url, Damage)
    assert (damage.file, "later owners have written" in damage.reason) == (name, True)
    content[-100] ^= 1
    store.create(name, [content])
    (damage,) = findings(url, Damage)
    assert (damage.file, damage.position) == ("wal/1", 0)
    assert name in damage.reason
    result = CliRunner().invoke(inspect, ["--store", url])
    assert result.exit_code == 1
    assert "DAMAGED in 1 places" in result.output
    assert last.generation == 2


def test_a_commit_after_an_empty_slot_is_ignored_and_not_damage(data, store, url):
    last = slots(store)[-1]
    content = store.read(slot_name("wal/1", last), 0, 1 << 20).data
    name = slot_name("wal/1", Place(last.generation, last.slot + 2))
    store.create(name, [content])
    assert findings(url, Damage) == []
    assert [each.file for each in findings(url, Leftover)] == [name]


def test_slots_missing_between_archive_and_journal_are_damage(data, store, url, monkeypatch):
    first = slots(store)[0]
    data.journal.seal()
    boundary = "pipeline_broker.inspect.object_journal.read_boundary"

    def later(objects, log):
        found = read_boundary(objects, log)
        return found.raised_to(Place(first.generation, first.slot + 1)) if log == "wal/1" else found

    monkeypatch.setattr(boundary, later)
    damages = findings(url, Damage)
    assert any("neither in the journal nor in the archive" in each.reason for each in damages)


def test_slots_archived_during_the_read_are_read_again_from_the_archive(data, url):
    inspection = Inspection(ArchivePlace(url, 1, "objects")).findings()
    seen = [next(inspection)]
    data.archive_all()  # between the archive's turn and that of the journal
    seen += inspection
    assert [each for each in seen if isinstance(each, Damage)] == []
    assert findings(url, (Damage, Superseded)) == []


def test_a_journal_read_again_after_archiving_gives_all_records(data, url):
    data.fill(200, start=24)  # more slots than are read ahead
    asked = []

    def wants(name):
        asked.append(name)
        if len(asked) == 3:
            data.archive_all()  # and gives the slots back that are about to be read
        return True

    stored = ArchivePlace(url, 1, "objects")
    for log, end_offset in zip(read_logs(stored, wants), (224, 222), strict=True):
        assert (log.log_start_offset, log.high_watermark) == (0, end_offset)
        ranges = stored_ranges(log, stored, 0, end_offset, committed=False)
        found = [(batches.offset, batches.end_offset) for each in ranges for batches in each.read(stored)]
        assert [start for start, _ in found] == [0, *(end for _, end in found[:-1])]
        assert found[-1][1] == end_offset


def test_nothing_to_inspect_is_one_line(tmp_path, url, data):
    for arguments, expected in (
        (["--store", url, "--node-id", "7"], "the store has no journal wal/7"),
        (["--store", f"file://{tmp_path}/none"], "cannot be read"),
        (["--store", "ftp://x"], "Use s3://"),
        (["--store", url, "--data", str(tmp_path)], "give one of them"),
    ):
        result = CliRunner().invoke(inspect, arguments)
        assert result.exit_code == 2
        assert expected in result.stderr


@pytest.mark.parametrize("by", ["store", "directory"])
def test_rows_come_from_archive_and_journal_of_a_store(by, data, url):
    where = url if by == "store" else data.directory
    found = rows(where, subscribe="events")
    assert (offsets(found), offsets(found, 1)) == (list(range(24)), list(range(22)))
    found = rows(where, subscribe="events", startingOffsets='{"events": {"0": 19, "1": 20}}')
    assert (offsets(found), offsets(found, 1)) == (list(range(19, 24)), [20, 21])


def test_records_archived_between_plan_and_read_are_found_in_the_archive(data, url):
    read, ranges = planned(url, subscribe="events")
    data.archive_all()
    found = rows_of(read, ranges)
    assert (offsets(found), offsets(found, 1)) == (list(range(24)), list(range(22)))


def test_places_of_slots_that_are_far_from_the_first_fit_into_an_index():
    assert ObjectJournalBytes.place_at((5 << 31) + 3, 7) == ObjectJournalBytes.place_at(3, 7) < 1 << 63
