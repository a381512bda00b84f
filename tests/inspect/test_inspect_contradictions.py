"""`inspect` finds contradictions between files with valid checksums, which only a faulty writer leaves."""

import struct

import attrs
import pytest

from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.inspect.manifest_reader import offset_problems
from pipeline_broker.log.archive.index_files import IndexBuilder
from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.archive.manifest import MAGIC_BYTES, Edit, PartitionManifest, encode_frame
from pipeline_broker.log.archive.segment_file import SegmentInfo
from pipeline_broker.records.batch import NewRecord, build_batch, read_header, restamped
from pipeline_broker.records.checksum import crc32c
from tests.inspect.data_directory import Data, archived, damages, run

SEGMENT = "journal/{:020d}.segment"
LOG = "archive/events-0/00000000000000000000.log"
INDEX = "archive/events-0/00000000000000000000.index"
MANIFEST = "archive/manifest"


def committed(tmp_path, change):
    """Return a directory with another manifest of events-0; a journal segment is archived and not recycled."""
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
            (
                SEGMENT.format(12),
                min(end, 58),
                f"events-0 ends at offset {end} in the archive, but at offset 58 in the journal",
            ),
            (SEGMENT.format(12), 58, f"batch at LSN 59: expected offset {end} of the partition, not 58"),
        ]


def test_a_live_partition_that_the_archive_has_lost_is_damage(tmp_path):
    data = archived(tmp_path, segments=3)
    data.archive.commit(Edit(data.archive.lsn, {data.logs[1].entry_key: None}))
    (tmp_path / SEGMENT.format(11)).unlink()

    (damage,) = damages(tmp_path)

    assert (
        damage["reason"]
        == "the archive has no records of partition 1 of events, but the journal continues at offset 58"
    )


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: attrs.evolve(it, folder="../events-0"), "'../events-0' is not a folder of partition 0"),
        (lambda it: attrs.evolve(it, folder="events-1"), "'events-1' is not a folder of partition 0"),
        (lambda it: attrs.evolve(it, producers=b"x"), "the producers of events-0 cannot be read"),
        (lambda it: attrs.evolve(it, segments=it.segments[1:]), "events-0 lacks offsets 0 to 29"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_damage(tmp_path, change, reason):
    assert (MANIFEST, reason) in [(file, reason) for file, _, reason in committed(tmp_path, change)]


def test_timestamps_that_differ_from_the_batches_are_damage(tmp_path):
    def change(manifest):
        first, *others = manifest.segments
        return attrs.evolve(manifest, segments=(attrs.evolve(first, max_timestamp=1 << 40), *others))

    ((file, offset, reason),) = committed(tmp_path, change)

    assert (file, offset) == (LOG, 0)
    assert reason.startswith("the first and the largest timestamp are (0, 1099511627776) in the manifest")


def test_a_decreasing_lsn_and_a_malformed_edit_are_damage(tmp_path):
    data = archived(tmp_path)
    lsn = data.archive.lsn
    path = tmp_path / MANIFEST
    before = path.read_bytes()

    path.write_bytes(before + encode_frame(Edit(lsn - 1, {})) + encode_frame(Edit(lsn, {})))
    assert [damage["reason"] for damage in damages(tmp_path)] == [f"an edit goes back from LSN {lsn} to {lsn - 1}"]

    body = b"too short"
    length = struct.pack("<I", len(body))
    path.write_bytes(before + MAGIC_BYTES + struct.pack("<I", crc32c(body, crc32c(length))) + length + body)
    (damage,) = damages(tmp_path)
    assert (damage["file"], damage["position"]) == (MANIFEST, len(before))
    assert damage["reason"].startswith("an edit with a correct checksum cannot be decoded")
    assert run(tmp_path).exit_code == 1


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
        (PartitionManifest("t-0", 0, 7), ["t-0 lacks offsets 0 to 6"]),
        (PartitionManifest("t-0", 0, 10, (segment(0, 4), segment(6, 9))), ["t-0 lacks offsets 5 to 5"]),
        (PartitionManifest("t-0", 0, 12, (segment(0, 9),)), ["t-0 lacks offsets 10 to 11"]),
        (PartitionManifest("t-0", 0, 8, (segment(0, 9),)), ["t-0 ends at offset 8, but its last segment at 10"]),
        (
            PartitionManifest("t-0", 0, 10, (segment(0, 6), segment(5, 9))),
            ["segment 5 of t-0 begins before offset 7, where the previous segment ends"],
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
    """Return a sealed segment of single records at these offsets, like compaction leaves them."""
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


def test_offsets_removed_by_compaction_are_named_by_the_index(tmp_path):
    assert archive_of(tmp_path, [0, 1, 5, 6, 30]) == []
    (tmp_path / INDEX).unlink()
    assert [damage["file"] for damage in damages(tmp_path)] == [INDEX]


def test_missing_offsets_that_no_index_names_are_damage(tmp_path):
    """The index is missing, and the batches differ from the manifest: one of them was changed."""
    archive_of(tmp_path, [0, 1, 5, 6, 30])
    (tmp_path / INDEX).unlink()
    content = bytearray((tmp_path / LOG).read_bytes())
    size = len(content) // 5
    content[2 * size + 7] = 4
    (tmp_path / LOG).write_bytes(content)

    found = {(damage["file"], damage["position"], damage["offset"]) for damage in damages(tmp_path)}

    assert (LOG, 0, 0) in found, "which of them was changed is unknown"


def test_an_index_that_does_not_match_the_batches_is_damage(tmp_path):
    """A faulty writer: files and manifest agree, the batches do not."""
    assert archive_of(tmp_path, [0, 1, 5, 6]) == []
    data = open_local_archive(tmp_path, SystemFileSystem())
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

    assert (INDEX.replace(".index", ".timeindex"), "the index does not match the batches") in [
        (file, reason.split(";")[0]) for file, reason in reasons
    ]


def test_an_index_unknown_to_the_manifest_is_compared_with_the_batches(tmp_path):
    unknown = lambda info: attrs.evolve(info, indexes=None)  # noqa: E731
    assert archive_of(tmp_path, [0, 1, 5, 6, 30], unknown) == []
    path = tmp_path / INDEX
    path.write_bytes(path.read_bytes()[:-1] + b"x")

    assert [(damage["file"], damage["position"]) for damage in damages(tmp_path)] == [(INDEX, 15)]
