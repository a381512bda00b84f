"""An archive in a store is shown and verified like one in a data directory."""

import pytest

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.inspect.errors import StoredDataError
from pipeline_broker.inspect.object_archive import ObjectArchive
from pipeline_broker.log.archive.local.archive_place import PLACE_NAME
from pipeline_broker.log.archive.objects import archive_log
from pipeline_broker.objects.directory_store import DirectoryStore
from pipeline_broker.objects.memory_store import MemoryStore
from pipeline_broker.objects.store import list_all
from tests.inspect.data_directory import archived, damages, json_of, of_type, run
from tests.pyspark_pipeline_broker.stored_rows import rows


@pytest.fixture
def data(tmp_path):
    data = archived(tmp_path / "data", segments=3, store=tmp_path / "store")
    yield data
    data.close()
    data.archive.close()


@pytest.fixture
def store(data, tmp_path):
    return DirectoryStore(SystemFileSystem(), tmp_path / "store")


def without_places(lines):
    """Return the findings that do not depend on where the archive is."""
    apart = ("manifest", "edit")
    return [
        {name: value for name, value in line.items() if name not in {"identity", "previous"}}
        for line in lines
        if line["type"] not in apart
    ]


def test_it_shows_the_same_as_for_an_archive_in_the_directory(data, tmp_path):
    archived(tmp_path / "local", segments=3).close()

    for depth in ("segments", "records"):
        found = json_of(data.directory, "--show", depth)
        local = json_of(tmp_path / "local", "--show", depth)
        kinds = (
            "partition",
            "archive_segment",
            "archive_batch",
            "archived_batch",
            "archived_record",
            "index",
            "damage",
        )
        assert of_type(without_places(found), *kinds) == of_type(without_places(local), *kinds)
    (manifest,) = of_type(found, "manifest")
    assert (manifest["file"], manifest["lsn"]) == ("files/1", data.archive.lsn)
    assert run(data.directory).exit_code == 0


def test_it_reads_while_the_broker_runs(data):
    before = of_type(json_of(data.directory), "manifest")[0]["lsn"]
    data.fill(10, start=200)
    data.archive_all()
    assert of_type(json_of(data.directory), "manifest")[0]["lsn"] > before
    data.fill(1, start=300)  # the inspection has not fenced it
    data.archive_all()


def test_unused_objects_and_files_are_leftovers(data, store):
    store.upload("bulk/1/left", [b"x" * 7])
    data.archive.store.write("events-0/00000000000000000999.log", [b"x"], 0)
    data.archive.store.sync(["events-0/00000000000000000999.log"])

    left = {line["file"]: line["size_bytes"] for line in of_type(json_of(data.directory), "leftover")}
    assert left["bulk/1/left"] == 7
    assert "archive/events-0/00000000000000000999.log" in left
    assert run(data.directory).exit_code == 0


def test_a_damaged_object_and_a_missing_one_are_damage(data, store):
    name = max(list_all(store, "bulk/1/"), key=lambda each: each.size_bytes).name
    content = bytearray(store.read(name, 0, 1 << 30).data)
    content[100] ^= 1
    store.upload(name, [content])
    assert damages(data.directory)
    assert run(data.directory).exit_code == 1
    store.delete([name])
    assert damages(data.directory)


def test_a_damaged_slot_is_damage_of_the_log(data, store):
    name = [each.name for each in list_all(store, "files/1/") if not each.name.endswith("boundary")][-1]
    content = bytearray(store.read(name, 0, 1 << 30).data)
    content[len(content) // 2] ^= 1
    store.upload(name, [content])
    (damage,) = damages(data.directory)
    assert damage["file"] == "files/1"
    assert run(data.directory).exit_code == 1
    with pytest.raises(StoredDataError):
        rows(data.directory, subscribe="events")


def test_a_store_that_cannot_be_reached_leaves_nothing_to_inspect(data):
    (data.directory / PLACE_NAME).write_text("file:///dev/null/store\n1\n")
    result = run(data.directory)
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    assert "the archive cannot be read" in result.output
    (data.directory / PLACE_NAME).write_text("nonsense")
    assert run(data.directory).exit_code == 2


def test_a_log_replaced_by_a_snapshot_during_the_read_is_read_again(tmp_path, monkeypatch):
    monkeypatch.setattr(archive_log, "SNAPSHOT_SLOTS", 3)
    data = archived(tmp_path / "data", store=tmp_path / "store")
    real = DirectoryStore(SystemFileSystem(), tmp_path / "store")
    left = [2]

    class Moving(MemoryStore):
        def __getattribute__(self, name):
            if name not in {"read", "list"}:
                return super().__getattribute__(name)

            def ask(*arguments):
                answer = getattr(real, name)(*arguments)
                if name == "list" and left[0]:  # the listed slots are replaced by a snapshot and deleted
                    left[0] -= 1
                    for number in range(4):
                        data.fill(2, start=500 + number)
                        data.archive_all()
                return answer

            return ask

    reader = ObjectArchive(Moving(), 1)
    findings = list(reader.manifests.findings())
    assert [finding.type for finding in findings] == ["manifest"]
    assert reader.manifests.manifest.lsn == data.archive.lsn
    data.close()
    data.archive.close()


def test_spark_reads_the_same_rows(data, tmp_path):
    archived(tmp_path / "local", segments=3).close()

    assert rows(data.directory, subscribe="events") == rows(tmp_path / "local", subscribe="events")
