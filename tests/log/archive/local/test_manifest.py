"""The manifest: the encoding of edits, and the file under kills, power cuts and damage."""

import errno
import os
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from pipeline_broker.files import window
from pipeline_broker.files.file_system import SystemFileSystem, write_all
from pipeline_broker.files.window import Window
from pipeline_broker.log.archive.archiver import Archiver, CompleteSegment
from pipeline_broker.log.archive.index_files import IndexState
from pipeline_broker.log.archive.local import manifest_file
from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.archive.local.manifest_file import MANIFEST_NAME, ManifestFile, is_edit_after, stored_edits
from pipeline_broker.log.archive.manifest import Edit, Manifest, PartitionManifest, decode_frame, encode_frame
from pipeline_broker.log.archive.segment_file import SegmentInfo
from pipeline_broker.log.errors import ManifestDamaged
from pipeline_broker.log.journal.clean_shutdown import ManifestEnd
from pipeline_broker.records.checksum import crc32c
from tests.crashes.lengths import examples
from tests.files.memory_file_system import MemoryFileSystem
from tests.files.test_window import Counting

DIRECTORY = Path("/archive")

keys = st.binary(min_size=20, max_size=20)
offsets = st.integers(0, 2**63 - 1)
timestamps = st.integers(-1, 2**63 - 1)
segments = st.builds(
    SegmentInfo,
    base_offset=offsets,
    last_offset=offsets,
    size_bytes=offsets,
    first_timestamp=timestamps,
    max_timestamp=timestamps,
    modified_ms=timestamps,
    is_sealed=st.booleans(),
    indexes=st.one_of(st.none(), st.builds(IndexState, *[st.integers(0, 2**32 - 1)] * 5)),
    generation=st.integers(0, 2**32 - 1),
    cleanings=st.integers(0, 2**32 - 1),
)
segments |= st.builds(attrs.evolve, segments, aborted_bytes=st.integers(1, 99), aborted_crc=st.integers(0, 2**32 - 1))
partitions = st.builds(
    PartitionManifest,
    folder=st.text(max_size=30),
    log_start_offset=offsets,
    end_offset=offsets,
    segments=st.lists(segments, max_size=4).map(tuple),
    producers=st.binary(max_size=50),
    first_dirty_offset=offsets,
    open_transactions=st.just(()) | st.lists(st.tuples(offsets, offsets), max_size=3).map(tuple),
)
edits = st.builds(Edit, lsn=offsets, partitions=st.dictionaries(keys, st.one_of(st.none(), partitions), max_size=4))


def opened(files):
    files.make_directory(DIRECTORY)
    return ManifestFile(files, DIRECTORY)


def window_of(data):
    files = MemoryFileSystem()
    file = files.open(DIRECTORY / "any", create=True)
    write_all(file, [data], 0)
    return Window(file)


@given(edit=edits, before=st.binary(max_size=8), behind=st.binary(max_size=8))
def test_an_edit_is_read_as_it_was_written(edit, before, behind):
    frame = encode_frame(edit)

    assert decode_frame(before + frame + behind, len(before)) == edit


@given(edit=edits, data=st.data())
def test_a_changed_byte_or_a_missing_end_makes_it_no_edit(edit, data):
    frame = bytearray(encode_frame(edit))
    place = data.draw(st.integers(0, len(frame) - 1))
    assert decode_frame(bytes(frame[:place]), 0) is None

    frame[place] ^= data.draw(st.integers(1, 255))
    assert decode_frame(bytes(frame), 0) is None


@given(st.lists(edits, max_size=5))
def test_the_sum_of_edits_makes_the_same_manifest(made):
    manifest, again = Manifest(), Manifest()
    for edit in made:
        manifest.apply(edit)
    again.apply(manifest.as_edit())

    assert again == manifest


def no_space_for(operation):
    def before(name, path):
        if name == operation and path.name.startswith(MANIFEST_NAME):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return before


class ManifestMachine(RuleBasedStateMachine):
    """Whatever was committed is there after any crash, and whole edits only."""

    def make_files(self):
        return MemoryFileSystem()

    @initialize()
    def start(self):
        self.files = self.make_files()
        self.expected = Manifest()
        self.file = opened(self.files)

    @rule(edit=edits)
    def commit(self, edit):
        self.file.commit(edit)
        self.expected.apply(edit)

    @rule(data=st.data())
    def power_cut(self, data):
        self.files.power_cut(lambda n: data.draw(st.integers(0, n)))
        self.open()

    @rule(edit=edits, data=st.data(), operation=st.sampled_from(["write", "sync", "rename", "sync directory"]))
    def crash_within(self, edit, data, operation):
        """The commit, or the rewriting of the next start, ends in the middle: the edit is there, or it is not."""

        def fail(name, _path):
            if name == operation:
                raise OSError(errno.EIO, os.strerror(errno.EIO))

        self.files.before = fail
        try:
            self.file.commit(edit)
            self.expected.apply(edit)
            opened(self.files)
        except OSError:
            pass
        self.files.before = lambda _operation, _path: None
        self.files.power_cut(lambda n: data.draw(st.integers(0, n)))
        with_edit = attrs.evolve(self.expected, partitions=dict(self.expected.partitions))
        with_edit.apply(edit)
        self.file = opened(self.files)
        assert self.file.manifest in (self.expected, with_edit)
        self.expected = attrs.evolve(self.file.manifest, partitions=dict(self.file.manifest.partitions))

    @rule(edit=edits, operation=st.sampled_from(["create", "write", "rename"]), is_cut=st.booleans())
    def start_without_space(self, edit, operation, is_cut):
        """Start on a full disk: the edits are readable, and the file is rewritten before the next commit or at the next
        start.
        """
        self.files.before = no_space_for(operation)
        self.file = opened(self.files)
        assert self.file.manifest == self.expected
        assert self.file.end is None, "a clean shutdown must not vouch for it"
        with pytest.raises(OSError, match="No space left"):
            self.file.commit(edit)
        assert self.file.manifest == self.expected
        self.files.before = lambda _operation, _path: None
        if is_cut:
            self.files.power_cut(lambda n: 0)
            self.file = opened(self.files)
        self.file.commit(edit)
        self.expected.apply(edit)

    @rule()
    def open(self):
        self.file = opened(self.files)
        assert self.file.manifest == self.expected


SETTINGS = settings(
    max_examples=examples(60), stateful_step_count=20, deadline=None, suppress_health_check=list(HealthCheck)
)
BLIND = settings(SETTINGS, max_examples=800, phases=[Phase.generate], derandomize=True)


@pytest.fixture(params=[1 << 20, 1], ids=["rarely rewritten", "often rewritten"])
def rewriting(request, monkeypatch):
    monkeypatch.setattr("pipeline_broker.log.archive.local.manifest_file.REWRITE_BYTES_MIN", request.param)


@pytest.mark.usefixtures("rewriting")
def test_commits_survive_every_crash():
    run_state_machine_as_test(ManifestMachine, settings=SETTINGS)


@pytest.mark.parametrize("left_out", ["settle", "settle_names"])
def test_a_sync_left_out_is_noticed(left_out):
    class Files(MemoryFileSystem):
        pass

    setattr(Files, left_out, lambda *_: None)

    class Machine(ManifestMachine):
        def make_files(self):
            return Files()

    with pytest.raises((AssertionError, ManifestDamaged, FileNotFoundError)):
        run_state_machine_as_test(Machine, settings=BLIND)


def test_a_long_file_is_rewritten_with_the_same_content(tmp_path, monkeypatch):
    monkeypatch.setattr("pipeline_broker.log.archive.local.manifest_file.REWRITE_BYTES_MIN", 1000)
    files = MemoryFileSystem()
    file = opened(files)
    sizes = []
    for number in range(200):
        file.commit(Edit(number, {bytes(20): PartitionManifest("topic-0", log_start_offset=number)}))
        sizes.append(files.open(DIRECTORY / MANIFEST_NAME).size_bytes())

    assert max(sizes) < 1200
    assert opened(files).manifest.lsn == 199


def damage(position, edits_count=3):
    """A manifest of several edits with one byte changed."""
    files = MemoryFileSystem()
    file = opened(files)
    for number in range(1, edits_count + 1):
        file.commit(Edit(number, {bytes(20): PartitionManifest("topic-0", end_offset=number)}))
    stored = files.open(DIRECTORY / MANIFEST_NAME)
    place = position if position >= 0 else stored.size_bytes() + position
    (byte,) = bytes(stored.read(1, place))
    stored.write([bytes([byte ^ 0x10])], place)
    return files


@pytest.mark.parametrize("position", [0, 5, 30, 60])
def test_damage_before_an_intact_edit_refuses_the_start(position):
    with pytest.raises(ManifestDamaged, match="manifest is damaged at byte"):
        opened(damage(position))


def test_a_torn_end_is_left_out():
    assert opened(damage(-1)).manifest.lsn == 2


def test_while_the_manifest_may_not_be_durable_nothing_is_given_up_for_it():
    files, data = MemoryFileSystem(), Path("/data")
    files.make_directory(data)
    archive = open_local_archive(data, files)
    archive.store.write("t-0/00000000000000000099.log", [b"stray"], 0)
    archive.store.sync(["t-0/00000000000000000099.log"])
    files.before = no_space_for("create")
    archive = open_local_archive(data, files)
    refuse, operations = files.before, []

    def before(operation, path):
        operations.append(operation)
        refuse(operation, path)

    files.before = before
    with pytest.raises(OSError, match="No space left"):
        archive.remove_unknown(())
    with pytest.raises(OSError, match="No space left"):
        Archiver(archive, None).take_over([CompleteSegment(1, 0)], {}, 0)
    assert "unlink" not in operations

    files.before = lambda _operation, _path: None
    archive.remove_unknown(())
    assert archive.store.folders() == []


def test_an_edit_after_other_bytes_is_found_at_any_position():
    frame = encode_frame(Edit(7, {}))
    for junk in (b"x", b"PBM", b"PBMF", b"PBMF" * 3, b"PPBMF" + bytes(30)):
        assert is_edit_after(window_of(junk + frame), 0)
        assert is_edit_after(window_of(frame + junk + frame), len(frame))
        assert not is_edit_after(window_of(junk + frame[:-1]), 0)
        assert not is_edit_after(window_of(frame + junk), 0), "not the one that begins there"


@pytest.mark.parametrize("size_min", [0, 700])
def test_a_file_is_rewritten_at_a_multiple_of_its_first_edit(monkeypatch, size_min):
    monkeypatch.setattr(manifest_file, "REWRITE_BYTES_MIN", size_min)
    files, directory = MemoryFileSystem(), Path("/d")
    files.make_directory(directory)
    tested, size, total = ManifestFile(files, directory), len(encode_frame(Edit(0, {}))), len(encode_frame(Edit(0, {})))
    rewritten = 0
    for lsn in range(1, 40):
        edit = Edit(lsn, {b"k" * 20: PartitionManifest("t-0", end_offset=lsn)})
        tested.commit(edit)
        size += len(encode_frame(edit))
        if size > max(size_min, manifest_file.REWRITE_FACTOR * total):
            size = total = len(encode_frame(edit))
            rewritten += 1
        assert tested.end.size_bytes == size == files.open(directory / MANIFEST_NAME).size_bytes()
        if lsn % 3 == 0:
            tested = ManifestFile(files, directory, tested.end)
        assert tested.manifest.lsn == lsn
    assert rewritten > 2


def test_a_clean_shutdown_that_does_not_know_of_a_manifest_vouches_for_none():
    files = MemoryFileSystem()
    opened(files).commit(Edit(7, {}))
    assert ManifestFile(files, DIRECTORY, ManifestEnd()).manifest.lsn == 7


def commit_many(file):
    for lsn in range(1, 20):
        file.commit(Edit(lsn, {}))


@pytest.mark.parametrize("operation", ["write", "sync"])
def test_an_edit_that_is_not_durable_is_not_applied(operation):
    files = MemoryFileSystem()
    file = opened(files)
    file.commit(Edit(1, {}))
    files.before = no_space_for(operation)
    with pytest.raises(OSError, match=r"No space left|Input/output error"):
        file.commit(Edit(2, {bytes(20): PartitionManifest("topic-0")}))
    assert file.manifest == Manifest(1)


@pytest.mark.parametrize("operation", ["write", "create"])
def test_a_commit_that_a_full_disk_refused_is_done_again(operation, monkeypatch):
    """The disk refuses the edit or the rewrite. Until a retry succeeds, a clean shutdown must not mark the file."""
    monkeypatch.setattr(manifest_file, "REWRITE_BYTES_MIN", 1)
    files = MemoryFileSystem()
    file = opened(files)
    files.before = no_space_for(operation)
    with pytest.raises(OSError, match="No space left"):
        commit_many(file)
    assert file.end is None
    files.before = lambda _operation, _path: None
    file.commit(Edit(20, {}))
    assert file.manifest.lsn == opened(files).manifest.lsn == 20


def test_a_manifest_that_no_broker_has_written_is_refused_before_it_is_read(tmp_path):
    files = SystemFileSystem()
    ManifestFile(files, tmp_path).close()
    os.truncate(tmp_path / MANIFEST_NAME, 40 << 30)
    with pytest.raises(ManifestDamaged, match=r"manifest has 42949672960 bytes, but a manifest has at most .*truncate"):
        ManifestFile(files, tmp_path)


def test_zeros_after_a_manifest_are_a_torn_end_and_holes_are_not_read(tmp_path):
    files = SystemFileSystem()
    manifest = ManifestFile(files, tmp_path)
    manifest.commit(Edit(7, {}))
    manifest.close()
    os.truncate(tmp_path / MANIFEST_NAME, 2 << 30)
    counting = Counting(files.open(tmp_path / MANIFEST_NAME))
    assert [stored.edit.lsn for stored in stored_edits(Window(counting))] == [0, 7]
    assert counting.read_bytes < 32 << 20
    assert ManifestFile(files, tmp_path).manifest.lsn == 7
    assert (tmp_path / MANIFEST_NAME).stat().st_size < 1000


def test_an_edit_that_claims_a_large_size_is_checked_in_pieces(tmp_path):
    files, path = SystemFileSystem(), tmp_path / "any"
    long = encode_frame(Edit(7, {bytes(20): PartitionManifest("a-0", producers=bytes(9 << 20))}))
    path.write_bytes(long[:-1] + b"x" + encode_frame(Edit(8, {})))
    counting = Counting(files.open(path))
    assert list(stored_edits(Window(counting))) == []
    assert is_edit_after(Window(counting), 0)
    assert counting.largest <= window.WINDOW_BYTES
    path.write_bytes(long)
    assert [len(stored.edit.partitions) for stored in stored_edits(Window(files.open(path)))] == [1]


def test_a_search_for_an_edit_ends(monkeypatch):
    monkeypatch.setattr(manifest_file, "DOUBTFUL_BYTES_MAX", 50_000)
    heads = encode_frame(Edit(7, {bytes(20): PartitionManifest("a-0", producers=bytes(1000))}))[:12] * 100
    with pytest.raises(ManifestDamaged, match="too many broken edits"):
        is_edit_after(window_of(heads + bytes(2000)), 0)


@given(edits.filter(lambda edit: edit.partitions), st.data())
def test_a_number_that_makes_no_sense_is_damage_and_no_other_error(edit, data):
    """Also where the checksum is right."""
    content = bytearray(encode_frame(edit))
    place = data.draw(st.integers(12, len(content) - 4))
    content[place : place + 4] = data.draw(st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1])).to_bytes(4, "little")
    content[4:8] = crc32c(memoryview(content)[8:]).to_bytes(4, "little")
    try:
        found = decode_frame(content, 0)
    except ManifestDamaged:
        return
    assert isinstance(found, Edit)
