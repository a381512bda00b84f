"""`inspect` finds damage wherever it is, locates it, and is not misled by it."""

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline_broker.files.file_system import SystemFileSystem
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
from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.archive.manifest import Edit
from pipeline_broker.log.errors import JournalCorrupt, ManifestDamaged
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.journal.segment import HEADER_SPACE
from tests.crashes.lengths import examples
from tests.inspect.data_directory import (
    TOPIC_ID,
    Data,
    archived,
    contents,
    damages,
    json_of,
    of_type,
    run,
    write_contents,
)

SEGMENT_HEADER_BYTES = 24  # of a journal segment; the rest of its first block is unused
SEGMENT = "journal/{:020d}.segment"
LOG = "archive/events-0/00000000000000000000.log"
INDEX = "archive/events-0/00000000000000000000.index"
MANIFEST = "archive/manifest"
SETTINGS = settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)


@pytest.fixture(scope="module", params=[2, 3])
def sample(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("sample")
    archived(directory, segments=request.param)
    return contents(directory)


@pytest.fixture(scope="module")
def counting(sample, tmp_path_factory):
    """Return which of their bytes matter: all but spare space and the lock file."""
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


@given(data=st.data())
@SETTINGS
def test_any_changed_byte_of_valid_data_is_reported_with_its_file(sample, counting, data, tmp_path_factory):
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
        assert reported == [Damage(name, place, "the index is damaged; a broker rebuilds the index before it uses it")]
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
def test_it_judges_journal_and_manifest_like_a_startup(sample, data, tmp_path_factory):
    """Damage is exactly what a startup refuses, and the valid entries are those that it replays.

    But damage to an archived journal segment is reported too, although a startup does not need it.
    """
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
        archive = open_local_archive(directory, SystemFileSystem())
        kept = sum(1 for _ in journal.recover(archive.lsn))
    except (JournalCorrupt, ManifestDamaged):
        assert totals.damages
    else:
        if name == min(victims, key=lambda victim: (victim == MANIFEST, victim)):
            return
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


def test_a_journal_without_segments_after_an_archive_is_damage(tmp_path):
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


def test_a_segment_cut_at_the_end_of_a_batch_shows_the_first_missing_offset(tmp_path):
    archived(tmp_path)
    batches = of_type(json_of(tmp_path, "--show", "entries"), "archived_batch")
    last = [batch for batch in batches if batch["file"] == LOG][-1]
    path = tmp_path / LOG
    path.write_bytes(path.read_bytes()[: last["position"]])

    (damage,) = damages(tmp_path)

    assert (damage["file"], damage["position"], damage["offset"]) == (LOG, last["position"], last["base_offset"])


def test_an_edit_that_was_cut_short_is_ignored(tmp_path):
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


def test_a_journal_that_ends_before_the_archive_has_a_torn_tail(tmp_path):
    """With flush=os a power cut may remove entries that the archive has synced since."""
    data = Data(tmp_path)
    data.fill(8)
    data.journal.seal()
    data.archive_one(recycle=False)
    path = tmp_path / SEGMENT.format(1)
    path.write_bytes(path.read_bytes()[:HEADER_SPACE])

    lines = json_of(tmp_path)

    assert not of_type(lines, "damage")
    assert lines[-1]["next_lsn"] == data.archive.lsn == 9


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_segment_deleted_or_replaced_during_the_read_is_not_damage(tmp_path, is_replaced):
    data = archived(tmp_path)
    findings = Inspection(tmp_path).findings()
    found = []
    for finding in findings:
        found.append(finding)
        if getattr(finding, "file", "") == LOG:  # it is about to be read: now retention deletes it, or compaction
            break
    key = data.logs[0].entry_key
    manifest = data.archive.find(key)
    first, *others = manifest.segments
    if is_replaced:
        cleaned = attrs.evolve(first, generation=data.archive.new_generation(), cleanings=1)
        rest = attrs.evolve(manifest, segments=(cleaned, *others))
    else:
        rest = attrs.evolve(manifest, segments=tuple(others), log_start_offset=30)
    data.archive.commit(Edit(data.archive.lsn, {key: rest}))
    (tmp_path / LOG).unlink()
    found += findings

    assert Superseded(LOG) in found
    assert not any(isinstance(finding, Damage) for finding in found)
    assert key.startswith(TOPIC_ID)


def test_a_segment_is_damaged_if_the_manifest_became_unreadable(tmp_path):
    archived(tmp_path)
    manifest = (tmp_path / MANIFEST).read_bytes()
    found = []
    for finding in Inspection(tmp_path).findings():
        found.append(finding)
        if getattr(finding, "file", "") == LOG and (tmp_path / LOG).exists():
            (tmp_path / LOG).unlink()
            (tmp_path / MANIFEST).write_bytes(manifest[:10])

    assert [finding.reason for finding in found if isinstance(finding, Damage) and finding.file == LOG] != []
    assert not any(isinstance(finding, Superseded) for finding in found)
