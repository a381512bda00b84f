"""The recorded location of archive and journal, and the refusal of any other one."""

from pathlib import Path

import pytest

from pipeline_broker.log.archive.local.archive_place import (
    ENDED,
    PLACE_NAME,
    WRITING_NAME,
    ArchivePlace,
    keep_archive_place,
    read_archive_place,
)
from pipeline_broker.log.archive.local.local_archive import ARCHIVE_NAME
from pipeline_broker.log.archive.local.manifest_file import MANIFEST_NAME
from pipeline_broker.log.errors import ManifestDamaged
from pipeline_broker.log.journal.segment import segment_path
from pipeline_broker.log.journal.taken_directory import JOURNAL_NAME
from tests.files.memory_file_system import MemoryFileSystem

DATA = Path("/d")
DISK, OBJECTS = ArchivePlace("s3://a", 1), ArchivePlace("s3://a", 1, "objects")
MEMORY_ON_DISK, MEMORY_ALL = ArchivePlace("memory://", 1), ArchivePlace("memory://", 1, "objects")


@pytest.fixture
def files():
    made = MemoryFileSystem()
    made.make_directory(DATA / JOURNAL_NAME)
    made.sync_directory(DATA)
    return made


def put(files, name, content=b""):
    files.open(DATA / name, create=True).write([content], 0)


@pytest.mark.parametrize("place", [DISK, OBJECTS, ArchivePlace("file:///ä", 2**31 - 1)])
def test_the_recorded_location_survives_a_power_cut(files, place):
    put(files, WRITING_NAME, b"an attempt that was cut short, and longer than what follows it" * 9)
    assert read_archive_place(files, DATA) is None
    keep_archive_place(files, DATA, place)
    files.power_cut(lambda _: 0)
    assert read_archive_place(files, DATA) == place
    assert WRITING_NAME not in files.list_directory(DATA)
    keep_archive_place(files, DATA, place)
    assert place.url in str(place)
    assert f"node {place.node}" in str(place)


def test_an_archive_in_the_directory_itself_is_not_recorded(files):
    keep_archive_place(files, DATA, None)
    assert PLACE_NAME not in files.list_directory(DATA)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"file\x1a//a\n1\n",
        b"s3://a\n",
        b"s3://a\nb\n",
        b"s3://a\n\n",
        b"s3://a\n1\nx\n",
        b"s3://a\n1\nobjects\nx\n",
        b"\xff\n\xff\n",
    ],
)
def test_a_file_with_other_content_is_damaged(files, content):
    put(files, PLACE_NAME, content)
    with pytest.raises(ManifestDamaged, match="does not name the archive"):
        read_archive_place(files, DATA)


def test_a_last_line_without_a_newline_is_accepted(files):
    put(files, PLACE_NAME, b"s3://a\n12\nobjects")
    assert read_archive_place(files, DATA) == ArchivePlace("s3://a", 12, "objects")


@pytest.mark.parametrize(
    ("before", "place", "message"),
    [
        (DISK, None, "is in s3://a. Start with --store s3://a"),
        (DISK, ArchivePlace("s3://b", 1), "is in s3://a. Start with --store s3://a"),
        (DISK, ArchivePlace("s3://a", 2), "belongs to node.id=1"),
        (DISK, OBJECTS, "Start with --wal disk"),
        (OBJECTS, DISK, "Start with --wal objects"),
        (MEMORY_ON_DISK, MEMORY_ON_DISK, ENDED),
        (MEMORY_ALL, MEMORY_ALL, None),
        (DISK, DISK, None),
    ],
)
def test_a_directory_continues_only_with_its_own_archive(files, before, place, message):
    keep_archive_place(files, DATA, before)
    if message is None:
        keep_archive_place(files, DATA, place)
    else:
        with pytest.raises(ManifestDamaged, match=message):
            keep_archive_place(files, DATA, place)
    assert read_archive_place(files, DATA) == before


@pytest.mark.parametrize("place", [DISK, OBJECTS, None])
def test_a_directory_that_has_an_archive_gets_no_other_one(files, place):
    files.make_directory(DATA / ARCHIVE_NAME)
    if place is not None:
        keep_archive_place(files, DATA, place)  # it is empty
        files.unlink(DATA / PLACE_NAME)
    put(files, f"{ARCHIVE_NAME}/{MANIFEST_NAME}")
    if place is None:
        keep_archive_place(files, DATA, None)
        return
    with pytest.raises(ManifestDamaged, match="contains an archive of its own"):
        keep_archive_place(files, DATA, place)


def test_a_directory_that_has_a_journal_keeps_it(files):
    put(files, f"{JOURNAL_NAME}/other")
    files.open(segment_path(DATA / JOURNAL_NAME, 1), create=True)
    with pytest.raises(ManifestDamaged, match="this directory contains a journal"):
        keep_archive_place(files, DATA, OBJECTS)
    keep_archive_place(files, DATA, DISK)
    assert read_archive_place(files, DATA) == DISK


def test_an_empty_journal_does_not_count(files):
    put(files, f"{JOURNAL_NAME}/other")
    keep_archive_place(files, DATA, OBJECTS)
