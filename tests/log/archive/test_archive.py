"""The archive: expired, replaced and unknown segments, and the deletion of their files."""

from pathlib import Path

import attrs
import pytest

from pipeline_broker.log.archive.archive import Cleaned, DeletedSegment, Expiry
from pipeline_broker.log.archive.archived_log import ArchivedLog
from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.archive.manifest import Edit, PartitionManifest
from pipeline_broker.log.archive.segment_file import file_names, transaction_index_name
from pipeline_broker.log.errors import SegmentGone
from tests.files.memory_file_system import MemoryFileSystem
from tests.log.archive.segments import make_batch, write_segment

DATA = Path("/d")
ONE, TWO, THREE = (bytes([number]) * 20 for number in (1, 2, 3))


class Setting:
    """An archive with three segments of one partition, and one of another."""

    def __init__(self):
        self.files = MemoryFileSystem()
        self.archive = open_local_archive(DATA, self.files)
        self.segments = self.written("a-0", 0, 1, 2)
        self.other = self.written("b-0", 0)
        self.archive.commit(
            Edit(
                7,
                {
                    ONE: PartitionManifest("a-0", end_offset=3, segments=self.segments),
                    TWO: PartitionManifest("b-0", end_offset=1, segments=self.other),
                },
            )
        )

    def written(self, folder, *offsets):
        """Segments of one batch each."""
        return tuple(
            write_segment(
                self.archive.store, [make_batch(offset)], folder=folder, generation=self.archive.new_generation()
            )
            for offset in offsets
        )

    def names(self, folder):
        return self.archive.store.names(folder)

    def again(self):
        """As the next process finds it."""
        self.files.kill()
        return open_local_archive(DATA, self.files)


def files_of(*segments, folder="a-0"):
    return sorted(name.split("/")[1] for one in segments for name in file_names(folder, one.base_offset, one.cleanings))


def test_generations_continue_after_the_highest_existing_one():
    setting = Setting()
    assert [one.generation for one in (*setting.segments, *setting.other)] == [1, 2, 3, 4]
    assert setting.again().new_generation() == 5


def test_expired_segments_leave_the_manifest_before_their_files_are_deleted():
    setting = Setting()
    first, second, third = setting.segments
    edit, deleted = setting.archive.expire(
        {ONE: Expiry("a-0", 2, frozenset([0, 1])), THREE: Expiry("c-0", 5, frozenset())}
    )
    assert (edit.lsn, setting.archive.lsn) == (7, 7)
    assert edit.partitions[ONE].segments == (third,)
    assert edit.partitions[ONE].log_start_offset == 2
    assert edit.partitions[THREE] == PartitionManifest("c-0", log_start_offset=5)
    assert deleted == [DeletedSegment("a-0", first), DeletedSegment("a-0", second)]
    assert setting.names("a-0") == files_of(*setting.segments)
    edit, deleted = setting.archive.expire({ONE: Expiry("a-0", 1, frozenset())})
    assert edit.partitions[ONE].log_start_offset == 2, "it never falls"
    assert deleted == []
    setting.archive.delete_files([DeletedSegment("a-0", first)])
    assert setting.names("a-0") == files_of(second, third)
    assert setting.again().find(ONE).segments == (third,)


@pytest.mark.parametrize(("start", "count"), [(0, 2), (2, 2), (3, 1), (5, 1), (6, 0)])
def test_the_batches_of_a_log_begin_with_the_one_that_its_start_is_within(start, count):
    setting = Setting()
    batches = [make_batch(0, (1, 1, 1)), make_batch(3, (1, 1, 1))]
    segment = write_segment(setting.archive.store, batches, folder="c-0")
    manifest = PartitionManifest("c-0", log_start_offset=start, end_offset=6, segments=(segment,))
    archived = ArchivedLog(setting.archive.reader, manifest)
    assert [bytes(batch) for _, batch in setting.archive.batches(archived)] == batches[2 - count :]


def test_an_archive_of_which_nothing_expires_has_no_edit_of_it():
    setting = Setting()
    end = setting.archive.manifest_end
    assert setting.archive.expire({}) == (Edit(7, {}), [])
    assert setting.archive.manifest_end == end


@pytest.mark.parametrize("count", [1, 2, 3])
def test_compacted_segments_replace_the_ones_they_were_made_from(count):
    setting = Setting()
    replaced, kept = setting.segments[:count], setting.segments[count:]
    (written,) = setting.written("a-0", 0)
    edit, deleted = setting.archive.replace(ONE, Cleaned("a-0", replaced, (written,), 2))
    assert edit.lsn == 7
    after = setting.again().find(ONE)
    assert after == edit.partitions[ONE]
    assert (after.segments, after.first_dirty_offset) == ((written, *kept), 2)
    assert deleted == [DeletedSegment("a-0", one) for one in replaced]


@pytest.mark.parametrize("key", [ONE, THREE])
def test_the_result_of_a_vain_compaction_is_deleted(key):
    """A segment that it read was deleted, or the whole partition."""
    setting = Setting()
    gone = attrs.evolve(setting.segments[0], generation=99)
    (written,) = setting.written("a-0", 0)
    edit, deleted = setting.archive.replace(key, Cleaned("a-0", (gone, setting.segments[1]), (written,), 2))
    assert edit == Edit(7, {})
    assert deleted == [DeletedSegment("a-0", written)]
    assert setting.again().find(ONE).segments == setting.segments


def test_the_index_of_aborted_transactions_is_deleted_with_its_segment():
    setting = Setting()
    first = attrs.evolve(setting.segments[0], aborted_bytes=1)
    name = transaction_index_name("a-0", 0)
    setting.archive.store.write(name, [b"x"], 0)
    setting.archive.delete_files([DeletedSegment("a-0", first)])
    assert setting.names("a-0") == files_of(*setting.segments[1:])


def test_a_reader_of_a_deleted_segment_gets_segment_gone():
    """And not that it is damaged."""
    setting = Setting()
    first, *_ = setting.segments
    begun = setting.archive.reader.read("a-0", first, 0, 1, at_least_one=True).cold
    setting.archive.delete_files([DeletedSegment("a-0", first)])
    with pytest.raises(SegmentGone):
        begun()


def test_unknown_partitions_and_leftover_files_are_deleted():
    setting = Setting()
    setting.archive.store.write("a-0/00000000000000000099.log", [b"x"], 0)
    setting.archive.store.write("c-0/00000000000000000099.log", [b"x"], 0)
    looks = []
    setting.archive.remove_unknown({ONE}, lambda: looks.append(None))
    assert set(setting.archive.known()) == {ONE}
    assert setting.archive.store.folders() == ["a-0"]
    assert setting.names("a-0") == files_of(*setting.segments)
    assert len(looks) == 3
    again = setting.again()
    assert (set(again.known()), again.lsn) == ({ONE}, 7)


def test_a_topic_that_has_the_name_of_a_deleted_one_finds_nothing_of_it():
    setting = Setting()
    end = setting.archive.manifest_end
    setting.archive.make_folders_free({ONE: "a-0", TWO: "b-0"})
    setting.archive.make_folders_free({ONE: "a-0", THREE: "c-0"})
    assert (setting.archive.manifest_end, set(setting.archive.known())) == (end, {ONE, TWO}), "nothing is in its way"
    looks = []
    setting.archive.make_folders_free({ONE: "a-0", THREE: "b-0"}, lambda: looks.append(None))
    assert len(looks) == 1
    again = setting.again()
    assert (set(again.known()), again.lsn) == ({ONE}, 7)
    assert again.store.folders() == ["a-0"]
    setting.archive.store.write("e-0/00000000000000000099.log", [b"x"], 0)
    setting.archive.make_folders_free({THREE: "e-0"})
    assert setting.archive.store.folders() == ["a-0"], "also leftovers of a killed writer"


def test_foreign_files_in_the_archive_are_left_alone():
    setting = Setting()
    names = [
        "a-0/note.txt",
        "a-0/00000000000000000000.log.bak",
        "b-0/note.txt",
        "notes/00000000000000000099.log",
        "c-0/x",
    ]
    for name in names:
        setting.archive.store.write(name, [b"stray"], 0)
    setting.archive.store.sync(names)
    for archive in (setting.archive, setting.again()):
        archive.remove_unknown({ONE})
        assert set(archive.known()) == {ONE}
        assert all(bytes(archive.store.read(name, 9, 0)) == b"stray" for name in names)
        assert archive.store.names("b-0") == ["note.txt"], "and the files of the partition are deleted"
