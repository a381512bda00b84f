"""`inspect` finds damage wherever it is, says where, and is not misled by it."""

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline_broker.inspect.findings import (
    BatchFound,
    Damage,
    IndexFound,
    IndexStatus,
    Leftover,
    SegmentEnd,
    Superseded,
    TornTail,
    Totals,
)
from pipeline_broker.inspect.inspection import Inspection
from pipeline_broker.inspect.manifest_reader import offset_problems
from pipeline_broker.log.archive.archive import Archive
from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.manifest import Edit, PartitionManifest, encode_frame
from pipeline_broker.log.archive.segment_file import SegmentInfo
from pipeline_broker.log.errors import JournalCorrupt, ManifestDamaged
from pipeline_broker.log.file_system import SystemFileSystem
from pipeline_broker.log.journal import Journal
from pipeline_broker.log.segment import HEADER_SPACE
from pipeline_broker.records.batch import NewRecord, build_batch, read_header, restamped
from tests.inspect.data_directory import TOPIC_ID, Data, archived, contents, json_of, of_type, run, write_contents

SEGMENT_HEADER_BYTES = 24  # of a journal segment; the rest of its first block is for nobody
SEGMENT = "journal/{:020d}.segment"
LOG = "archive/events-0/00000000000000000000.log"
INDEX = "archive/events-0/00000000000000000000.index"
MANIFEST = "archive/manifest"
SETTINGS = settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None
)


@pytest.fixture(scope="module", params=[2, 3])
def sample(request, tmp_path_factory):
    """The files of a data directory."""
    directory = tmp_path_factory.mktemp("sample")
    archived(directory, segments=request.param)
    return contents(directory)


@pytest.fixture(scope="module")
def counting(sample, tmp_path_factory):
    """Which bytes of them count: all but spare space and the lock file."""
    directory = tmp_path_factory.mktemp("intact")
    write_contents(directory, sample)
    found = list(Inspection(directory).findings())
    places = {name: range(len(data)) for name, data in sample.items() if name.startswith("archive")}
    for end in found:
        if isinstance(end, SegmentEnd):
            head = range(SEGMENT_HEADER_BYTES)
            places[SEGMENT.format(end.number)] = [*head, *range(HEADER_SPACE, end.used_bytes)]
    assert not any(isinstance(finding, Damage | TornTail | Leftover) for finding in found)
    return places


def found_in(directory, files):
    write_contents(directory, files)
    return list(Inspection(directory).findings())


def damages(directory, *arguments):
    return of_type(json_of(directory, *arguments), "damage")


@given(data=st.data())
@SETTINGS
def test_any_changed_byte_that_counts_is_reported_with_its_file(sample, counting, data, tmp_path_factory):
    name = data.draw(st.sampled_from(sorted(counting)))
    place = data.draw(st.sampled_from(counting[name]))
    changed = bytearray(sample[name])
    changed[place] ^= data.draw(st.integers(1, 255))

    found = found_in(tmp_path_factory.mktemp("flip"), {**sample, name: bytes(changed)})

    reported = [finding for finding in found if isinstance(finding, Damage | TornTail)]
    assert any(finding.file == name for finding in reported)
    if name.endswith(".log"):
        (damage,) = [finding for finding in reported if finding.file == name]
        assert isinstance(damage, Damage)
        assert damage.position <= place
        assert damage.offset is not None
    if name.endswith("index"):
        assert reported == [Damage(name, place, "the index is damaged; a broker makes it anew when it needs it")]
        statuses = {finding.file: finding.status for finding in found if isinstance(finding, IndexFound)}
        assert {file for file, status in statuses.items() if status is not IndexStatus.VALID} == {name}


@given(data=st.data())
@SETTINGS
def test_any_bytes_lost_or_changed_never_lead_to_a_traceback(sample, data, tmp_path_factory):
    files = dict(sample)
    for name in data.draw(st.lists(st.sampled_from(sorted(sample)), min_size=1, max_size=3, unique=True)):
        changed = bytearray(files[name])
        for _ in range(data.draw(st.integers(1, 3)) if changed else 0):
            place = data.draw(st.integers(0, len(changed) - 1))
            piece = data.draw(st.binary(min_size=1, max_size=8))
            changed[place : place + len(piece)] = piece
        files[name] = bytes(changed[: data.draw(st.integers(0, len(changed)))])
        if data.draw(st.booleans()):
            del files[name]
    directory = tmp_path_factory.mktemp("any")
    (directory / "journal").mkdir()
    write_contents(directory, files)

    result = run(directory, "--show", data.draw(st.sampled_from(["segments", "records"])))

    assert result.exit_code in {0, 1}, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert ("DAMAGE" in result.stdout) == (result.exit_code == 1)


@given(data=st.data())
@SETTINGS
def test_it_judges_journal_and_manifest_as_a_start_does(sample, data, tmp_path_factory):
    """What a start refuses is damage, what it accepts is none, and its entries are those that it replays."""
    victims = [name for name in sample if name.startswith("journal") or name == MANIFEST]
    name = data.draw(st.sampled_from(victims))
    changed = bytearray(sample[name])
    place = data.draw(st.integers(0, len(changed) - 1))
    if name != MANIFEST and HEADER_SPACE > place >= SEGMENT_HEADER_BYTES:
        place = HEADER_SPACE
    if data.draw(st.booleans()):
        changed[place] ^= data.draw(st.integers(1, 255))
    else:
        del changed[place:]
    directory = tmp_path_factory.mktemp("start")
    found = found_in(directory, {**sample, name: bytes(changed)})
    totals = found[-1]
    assert isinstance(totals, Totals)

    journal = Journal.open(directory)
    try:
        archive = Archive.open(directory, SystemFileSystem())
        kept = sum(1 for _ in journal.recover(archive.lsn))
    except (JournalCorrupt, ManifestDamaged):
        assert totals.damages
    else:
        entries = [finding for finding in found if isinstance(finding, BatchFound)]
        assert not totals.damages
        assert totals.archived_lsn == archive.lsn
        assert sum(entry.lsn >= archive.lsn for entry in entries) == kept
    finally:
        journal.close()


@pytest.mark.parametrize("name", [LOG, INDEX, INDEX.replace(".index", ".timeindex"), MANIFEST, SEGMENT.format(12)])
def test_a_missing_file_is_damage(tmp_path, name):
    archived(tmp_path, segments=3)
    (tmp_path / name).unlink()

    found = damages(tmp_path)

    assert run(tmp_path).exit_code == 1
    assert any("missing" in damage["reason"] for damage in found)
    if name != SEGMENT.format(12):
        assert name in {damage["file"] for damage in found}


def test_the_first_journal_segment_missing_is_damage_unless_the_archive_has_it(tmp_path):
    archived(tmp_path, segments=3)
    (tmp_path / SEGMENT.format(11)).unlink()
    assert run(tmp_path).exit_code == 0

    (tmp_path / SEGMENT.format(12)).unlink()
    damage, *of_partitions = damages(tmp_path)

    assert len(of_partitions) == 2
    assert (damage["file"], damage["position"]) == (SEGMENT.format(13), HEADER_SPACE)
    assert damage["reason"] == "LSN 59 to 62 are neither in the archive nor in the journal"


def test_a_journal_without_segments_behind_an_archive_is_damage(tmp_path):
    archived(tmp_path).close()
    for path in (tmp_path / "journal").iterdir():
        path.unlink()
    assert [damage["file"] for damage in damages(tmp_path)] == ["journal"]
    (tmp_path / "journal").rmdir()
    assert [damage["file"] for damage in damages(tmp_path)] == ["journal"]


@pytest.mark.parametrize("name", [LOG, INDEX])
@pytest.mark.parametrize("kept", [0, 1, 16])
def test_a_file_of_the_archive_that_is_too_short_is_damage(tmp_path, name, kept):
    archived(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:kept])

    assert [damage["file"] for damage in damages(tmp_path)] == [name]


def test_a_segment_cut_at_the_end_of_a_batch_tells_the_first_offset_that_is_missing(tmp_path):
    archived(tmp_path)
    batches = of_type(json_of(tmp_path, "--show", "entries"), "archived_batch")
    last = [batch for batch in batches if batch["file"] == LOG][-1]
    path = tmp_path / LOG
    path.write_bytes(path.read_bytes()[: last["position"]])

    (damage,) = damages(tmp_path)

    assert (damage["file"], damage["position"], damage["offset"]) == (LOG, last["position"], last["base_offset"])


def test_an_edit_that_was_cut_short_does_not_count(tmp_path):
    data = Data(tmp_path)
    data.fill(8)
    data.journal.seal()
    before = data.archive.lsn
    data.archive_one(recycle=False)
    path = tmp_path / MANIFEST
    path.write_bytes(path.read_bytes()[:-1])

    lines = json_of(tmp_path)

    assert run(tmp_path).exit_code == 0
    assert lines[-1]["archived_lsn"] == before
    assert [line["file"] for line in of_type(lines, "torn_tail")] == [MANIFEST]
    assert of_type(lines, "leftover")  # what that edit would have named


def test_a_journal_that_ends_in_front_of_the_archive_has_a_torn_tail(tmp_path):
    """With flush=os a power cut may take what the archive has synced since."""
    data = Data(tmp_path)
    data.fill(8)
    data.journal.seal()
    data.archive_one(recycle=False)
    path = tmp_path / SEGMENT.format(1)
    path.write_bytes(path.read_bytes()[:HEADER_SPACE])

    lines = json_of(tmp_path)

    assert not of_type(lines, "damage")
    assert lines[-1]["next_lsn"] == data.archive.lsn == 9


def committed(tmp_path, change):
    """A directory whose manifest says something else of events-0; a journal segment is archived and not recycled."""
    data = archived(tmp_path, segments=3)
    key = data.logs[0].entry_key
    manifest = data.archive.find(key)
    data.archive.commit(Edit(data.archive.lsn, {key: change(manifest)}))
    return [(damage["file"], damage["offset"], damage["reason"]) for damage in damages(tmp_path)]


def test_an_archive_and_a_journal_with_a_gap_or_an_overlap_are_damage(tmp_path):
    for name, by in (("gap", -2), ("overlap", 2)):
        directory = tmp_path / name
        end = 58 + by
        found = committed(directory, lambda manifest, end=end: attrs.evolve(manifest, end_offset=end))

        in_journal = [one for one in found if one[0].startswith("journal")]
        assert in_journal == [
            (SEGMENT.format(12), min(end, 58), f"events-0 ends in the archive at {end}, in the journal at 58"),
            (SEGMENT.format(12), 58, f"batch at LSN 59: offset {end} of the partition should follow, not 58"),
        ]


def test_a_live_partition_that_the_archive_has_lost_is_damage(tmp_path):
    data = archived(tmp_path, segments=3)
    data.archive.commit(Edit(data.archive.lsn, {data.logs[1].entry_key: None}))
    (tmp_path / SEGMENT.format(11)).unlink()

    (damage,) = damages(tmp_path)

    assert damage["reason"] == "the archive has nothing of partition 1 of events, which goes on with offset 58"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: attrs.evolve(it, folder="../events-0"), "'../events-0' is no folder of partition 0"),
        (lambda it: attrs.evolve(it, folder="events-1"), "'events-1' is no folder of partition 0"),
        (lambda it: attrs.evolve(it, producers=b"x"), "the producers of events-0 cannot be read"),
        (lambda it: attrs.evolve(it, segments=it.segments[1:]), "events-0 has no offsets 0 to 29"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_damage(tmp_path, change, reason):
    assert (MANIFEST, reason) in [(file, reason) for file, _, reason in committed(tmp_path, change)]


def test_timestamps_that_are_not_those_of_the_batches_are_damage(tmp_path):
    def change(manifest):
        first, *others = manifest.segments
        return attrs.evolve(manifest, segments=(attrs.evolve(first, max_timestamp=1 << 40), *others))

    ((file, offset, reason),) = committed(tmp_path, change)

    assert (file, offset) == (LOG, 0)
    assert reason.startswith("the manifest has (0, 1099511627776) for its first and its largest timestamp")


def test_an_lsn_that_goes_back_and_an_edit_that_makes_no_sense_are_damage(tmp_path):
    data = archived(tmp_path)
    lsn = data.archive.lsn
    path = tmp_path / MANIFEST
    before = path.read_bytes()

    path.write_bytes(before + encode_frame(Edit(lsn - 1, {})) + encode_frame(Edit(lsn, {})))
    assert [damage["reason"] for damage in damages(tmp_path)] == [f"an edit goes back from LSN {lsn} to {lsn - 1}"]

    path.write_bytes(before + encode_frame(Edit(lsn, {b"short": PartitionManifest("events-0")}))[:-1])
    assert run(tmp_path).exit_code == 0


def segment(base, last, *, sealed=True, size_bytes=100):
    return SegmentInfo(base, last, size_bytes, -1, -1, is_sealed=sealed)


@pytest.mark.parametrize(
    ("manifest", "reasons"),
    [
        (PartitionManifest("t-0"), []),
        (PartitionManifest("t-0", 7, 7), []),
        (PartitionManifest("t-0", 0, 10, (segment(0, 4), segment(5, 9, sealed=False))), []),
        (PartitionManifest("t-0", 3, 10, (segment(0, 4), segment(5, 9))), []),
        (PartitionManifest("t-0", 8, 10, (segment(0, 4), segment(8, 9))), []),
        (PartitionManifest("t-0", 0, 10, (segment(2, 4), segment(8, 9)), first_dirty_offset=8), []),
        (PartitionManifest("t-0", 9, 8, (segment(2, 7),)), []),
        (PartitionManifest("t-0", 0, 7), ["t-0 has no offsets 0 to 6"]),
        (PartitionManifest("t-0", 0, 10, (segment(0, 4), segment(6, 9))), ["t-0 has no offsets 5 to 5"]),
        (PartitionManifest("t-0", 0, 12, (segment(0, 9),)), ["t-0 has no offsets 10 to 11"]),
        (PartitionManifest("t-0", 0, 8, (segment(0, 9),)), ["t-0 ends at offset 8, its last segment at 10"]),
        (
            PartitionManifest("t-0", 0, 10, (segment(0, 6), segment(5, 9))),
            ["segment 5 of t-0 begins in front of offset 7, where the one before it ends"],
        ),
        (
            PartitionManifest("t-0", 0, 10, (segment(0, 4, sealed=False), segment(5, 9))),
            ["segment 0 of t-0 is not sealed, but is not the last one"],
        ),
        (PartitionManifest("t-0", 0, 10, (segment(0, 9, size_bytes=0),)), ["segment 0 of t-0 has no batch"]),
    ],
)
def test_the_segments_of_a_partition_follow_each_other(manifest, reasons):
    assert [reason for reason, _ in offset_problems(manifest)] == reasons


def archive_of(tmp_path, base_offsets, change=lambda segment: segment):
    """A sealed segment of single records at these offsets, as compaction leaves them."""
    data = Data(tmp_path)
    builder = IndexBuilder(0)
    parts = []
    for offset in base_offsets:
        plain = build_batch([NewRecord(b"value", b"key", offset)])
        parts.append(restamped(read_header(plain), plain, offset))
        builder.add(offset, offset, len(parts[-1]), offset)
    builder.seal()
    entries = builder.take()
    store = data.archive.store
    store.write("events-0/00000000000000000000.log", parts, 0)
    store.write("events-0/00000000000000000000.index", [entries.offset_entries], 0)
    store.write("events-0/00000000000000000000.timeindex", [entries.time_entries], 0)
    info = change(SegmentInfo.written(builder, is_sealed=True, generation=1))
    end = base_offsets[-1] + 1
    manifest = PartitionManifest("events-0", 0, end, (info,), first_dirty_offset=end)
    data.archive.commit(Edit(0, {data.logs[0].entry_key: manifest}))
    return [(damage["file"], damage["position"], damage["offset"]) for damage in damages(tmp_path)]


def test_offsets_that_compaction_took_are_named_by_the_index(tmp_path):
    assert archive_of(tmp_path, [0, 1, 5, 6, 30]) == []
    (tmp_path / INDEX).unlink()
    assert [damage["file"] for damage in damages(tmp_path)] == [INDEX]


def test_offsets_that_nobody_names_are_damage(tmp_path):
    """The index is gone, and what the batches give is not what the manifest says: one of them was changed."""
    archive_of(tmp_path, [0, 1, 5, 6, 30])
    (tmp_path / INDEX).unlink()
    content = bytearray((tmp_path / LOG).read_bytes())
    size = len(content) // 5
    content[2 * size + 7] = 4
    (tmp_path / LOG).write_bytes(content)

    found = {(damage["file"], damage["position"], damage["offset"]) for damage in damages(tmp_path)}

    assert (LOG, 2 * size, 2) in found


def test_an_index_that_is_not_what_the_batches_give_is_damage(tmp_path):
    """As a writer with a mistake would leave it: files and manifest agree, the batches do not."""
    assert archive_of(tmp_path, [0, 1, 5, 6]) == []
    data = Archive.open(tmp_path, SystemFileSystem())
    key = next(iter(data._manifest_file.manifest.partitions))
    manifest = data.find(key)
    builder = IndexBuilder(0)
    for offset in (0, 1, 5, 6):
        builder.add(offset, offset, manifest.segments[0].size_bytes // 4, offset)
    entries = builder.take()  # not sealed: the last time entry is missing
    data.store.write("events-0/00000000000000000000.timeindex", [entries.time_entries], 0)
    info = attrs.evolve(manifest.segments[0], indexes=builder.state)
    data.commit(Edit(0, {key: attrs.evolve(manifest, segments=(info,))}))

    reasons = [(damage["file"], damage["reason"]) for damage in damages(tmp_path)]

    assert (INDEX.replace(".index", ".timeindex"), "the index is not what the batches give") in [
        (file, reason.split(";")[0]) for file, reason in reasons
    ]


def test_an_index_that_nobody_knows_is_held_against_the_batches(tmp_path):
    unknown = lambda info: attrs.evolve(info, indexes=None)  # noqa: E731
    assert archive_of(tmp_path, [0, 1, 5, 6, 30], unknown) == []
    path = tmp_path / INDEX
    path.write_bytes(path.read_bytes()[:-1] + b"x")

    assert [(damage["file"], damage["position"]) for damage in damages(tmp_path)] == [(INDEX, 15)]


def test_a_segment_that_was_deleted_or_replaced_meanwhile_is_no_damage(tmp_path):
    data = archived(tmp_path)
    findings = Inspection(tmp_path).findings()
    found = []
    for finding in findings:
        found.append(finding)
        if getattr(finding, "file", "") == LOG:  # it is about to be read: now retention deletes it
            break
    key = data.logs[0].entry_key
    manifest = data.archive.find(key)
    rest = attrs.evolve(manifest, segments=manifest.segments[1:], log_start_offset=30)
    data.archive.commit(Edit(data.archive.lsn, {key: rest}))
    (tmp_path / LOG).unlink()
    found += findings

    assert Superseded(LOG) in found
    assert not any(isinstance(finding, Damage) for finding in found)
    assert key.startswith(TOPIC_ID)
