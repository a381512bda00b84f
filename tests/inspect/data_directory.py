"""Data directories for `inspect`, made by the real journal and archive."""

import json
import os
from pathlib import Path

from click.testing import CliRunner

from pipeline_broker.commands.inspect import inspect
from pipeline_broker.files.file_system import SystemFileSystem
from pipeline_broker.log.archive.archiver import Archiver
from pipeline_broker.log.archive.local.archive_place import ArchivePlace, keep_archive_place
from pipeline_broker.log.archive.local.local_archive import open_local_archive
from pipeline_broker.log.archive.objects.object_archive import open_object_archive
from pipeline_broker.log.journal.journal import NO_PORTS, Journal, JournalPorts
from pipeline_broker.log.journal.taken_directory import TakenDirectory
from pipeline_broker.log.log_manager import LogManager
from pipeline_broker.log.object_journal.object_journal import ObjectJournal
from pipeline_broker.log.segments.policies import LogPolicies
from pipeline_broker.log.segments.retention import RollRules
from pipeline_broker.objects.directory_store import DirectoryStore
from pipeline_broker.objects.fencing import take_over
from pipeline_broker.objects.settled_store import SettledStore, pause_briefly
from pipeline_broker.records.batch import NewRecord, build_batch, read_header
from pipeline_broker.state.log_starts import LogStarts
from pipeline_broker.state.metadata_records import METADATA_TOPIC_ID, Topic, topic_record
from tests import transactional_batches
from tests.archiving import archive_one

TOPIC_ID = bytes(range(16))
TOPIC_ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"
PARTITIONS = 2


class Data:
    """A data directory with a metadata partition and a topic `events`, in use."""

    def __init__(
        self,
        directory: Path,
        *,
        segment_bytes: int = 16384,
        roll_bytes: int = 20000,
        ports: JournalPorts = NO_PORTS,
        store: Path | None = None,
        wal: str = "disk",
    ) -> None:
        self.directory = directory
        files = SystemFileSystem()
        if wal == "objects":
            files.make_directory(directory)
            taken = TakenDirectory.take(directory, files)
            keep_archive_place(files, directory, ArchivePlace(f"file://{store}", 1, "objects"))
            objects = SettledStore(DirectoryStore(files, store), pause_briefly)
            self.archive = open_object_archive(objects, 1, pause_briefly)
            ownership = take_over(objects, "wal/1", 1, lambda: os.urandom(16))
            self.journal = ObjectJournal(objects, "wal/1", 1, ownership, taken, segment_bytes=segment_bytes)
        else:
            self.journal = Journal.open(directory, segment_bytes=segment_bytes, ports=ports)
            if store is None:
                self.archive = open_local_archive(directory, files)
            else:
                keep_archive_place(files, directory, ArchivePlace(f"file://{store}", 1))
                self.archive = open_object_archive(DirectoryStore(files, store), 1, pause_briefly)
        self.manager = LogManager(self.journal, 0, self.archive)
        policies = LogPolicies(roll=RollRules(segment_bytes=roll_bytes))
        (self.metadata,) = self.manager.create("__cluster_metadata", METADATA_TOPIC_ID, 1)
        self.logs = self.manager.create("events", TOPIC_ID, PARTITIONS, policies=policies)
        self.manager.recover(lambda *_: None, 0)
        self.archiver = Archiver(self.archive, self.journal)
        if not self.metadata.log_end_offset:
            self.note_topic("events", TOPIC_ID)

    def note_topic(self, name, topic_id, partitions=PARTITIONS):
        record = topic_record(Topic(name, topic_id, partitions))
        self.write(self.metadata, [NewRecord(record.value, record.key)])

    def note_deleted(self, partition, offset):
        write = LogStarts().raise_to(TOPIC_ID, partition, offset)
        assert write is not None
        self.write(self.metadata, [NewRecord(record.value, record.key) for record in write.records])

    def write(self, log, records, **fields):
        batch = build_batch(records, **fields)
        entry = log.append(read_header(batch), batch, now_ms=0).entry
        assert entry is not None
        self.journal.sync(self.journal.write([entry]))
        self.manager.on_durable([entry])

    def write_in_transaction(self, producer_id, *, ends_with=None, partition=0):
        """Write a record of a transaction, and perhaps its end: committed or not."""
        log = self.logs[partition]
        batch = build_batch(
            [NewRecord(b"value", b"key", 1)],
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        entries = [transactional_batches.produce(log, batch, 0).entry]
        if ends_with is not None:
            marker = log.append_marker(producer_id, 1, committed=ends_with, coordinator_epoch=3, now_ms=2, version=2)
            entries.append(marker.entry)
        self.journal.sync(self.journal.write(entries))
        self.manager.on_durable(entries)

    def fill(self, commits, value=b"value", start=0):
        for number in range(start, start + commits):
            records = [NewRecord(value, b"key", number), NewRecord(b"second", None, number)]
            producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0} if number == 0 else {}
            self.write(self.logs[number % PARTITIONS], records, **producer)

    def archive_one(self, *, recycle=True):
        """Archive the oldest complete segment, and return whether one existed."""
        found = archive_one(self.archiver, self.manager)
        if found is None:
            return False
        number, edit = found
        self.manager.show(edit)
        if recycle:
            self.journal.recycle(number)
        return True

    def archive_all(self):
        self.journal.seal()
        while self.archive_one():
            pass

    def close(self):
        self.journal.close()


def archived(directory, *, segments=2, store=None):
    """Return a directory with archived segments, like after a kill.

    The first segment of the journal is archived and not recycled; the second is reused space. With `segments`, a third
    one is zero-filled ahead, with a spare beside it.
    """
    data = Data(directory, store=store)
    for start in range(0, 40, 10):
        data.journal.prepare_ahead()
        data.fill(10, b"long" * 300, start=start)
        data.archive_all()
    data.fill(8, start=100)
    data.journal.prepare_ahead()
    data.journal.seal()
    data.archive_one()
    data.fill(10, start=108)
    data.journal.seal()
    data.archive_one(recycle=False)
    data.fill(4, start=118)
    if segments > 2:
        data.journal.prepare_ahead()
        data.journal.seal()
        data.fill(3, start=122)
        data.journal.prepare_ahead()
    return data


def run(*arguments):
    return CliRunner().invoke(inspect, [str(argument) for argument in arguments])


def json_of(directory, *arguments):
    return [json.loads(line) for line in run(directory, "--json", *arguments).stdout.splitlines()]


def of_type(lines, *names):
    return [line for line in lines if line["type"] in names]


def damages(directory, *arguments):
    return of_type(json_of(directory, *arguments), "damage")


def contents(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


def write_contents(directory, files):
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
