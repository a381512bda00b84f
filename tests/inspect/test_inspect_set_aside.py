"""`inspect` lists the unreadable records of internal topics that the next startup would set aside."""

import pytest

from pipeline_broker.inspect.findings import SetAsideFound
from pipeline_broker.inspect.inspection import Inspection
from pipeline_broker.records.batch import HEADER_SIZE, NewRecord, assembled, build_batch, read_header
from pipeline_broker.state.groups.offset_records import CommittedOffset, OffsetKey, offset_record
from pipeline_broker.state.metadata_records import topic_tombstone
from tests.inspect.data_directory import Data, json_of, of_type, run

OFFSETS = "__consumer_offsets"
OFFSETS_ID = b"offsets-topic-id"
SOUND = offset_record(OffsetKey("g", "t", 0), CommittedOffset(5))
GOOD, BROKEN = NewRecord(SOUND.value, SOUND.key), NewRecord(b"\0\x63", SOUND.key)
REASON = "OffsetCommitValue has no version 99"


class StateData(Data):
    def __init__(self, directory):
        super().__init__(directory)
        (self.offsets,) = self.manager.create(OFFSETS, OFFSETS_ID, 1)
        self.note_topic(OFFSETS, OFFSETS_ID, 1)


@pytest.fixture(params=["in the journal", "in the archive", "in both"])
def data(request, tmp_path):
    made = StateData(tmp_path)
    made.write(made.offsets, [GOOD, BROKEN, GOOD])
    made.write(made.metadata, [NewRecord(b"\0\0{", b"\0\1lost")])
    made.write(made.logs[0], [BROKEN])
    if request.param == "in the archive":
        made.archive_all()
    elif request.param == "in both":
        made.journal.seal()
        made.archive_one(recycle=False)
    yield made
    made.close()


def test_each_is_named_with_its_place_and_reason(data):
    found = of_type(json_of(data.directory), "set_aside")
    assert {(line["topic"], line["partition"], line["offset"]) for line in found} == {
        (OFFSETS, 0, 1),
        ("__cluster_metadata", 0, 2),
    }
    assert len(found) == 2
    assert REASON in {line["reason"] for line in found}
    (totals,) = of_type(json_of(data.directory), "totals")
    assert totals["set_aside"] == 2


def test_the_text_report_shows_them_and_they_are_not_damage(data):
    result = run(data.directory)
    assert result.exit_code == 0
    assert f"  set aside: {OFFSETS} partition 0 offset 1: {REASON}" in result.stdout.splitlines()
    assert "; 2 records that the next startup sets aside" in result.stdout.splitlines()[-1]


def test_other_topics_may_hold_what_they_like(data):
    assert not of_type(json_of(data.directory, "--topic", "events"), "set_aside")


def test_options_narrow_them_like_everything_else(data):
    assert len(of_type(json_of(data.directory, "--topic", OFFSETS), "set_aside")) == 1
    assert not of_type(json_of(data.directory, "--topic", OFFSETS, "--from-offset", "2"), "set_aside")
    assert not of_type(json_of(data.directory, "--topic", OFFSETS, "--partition", "1"), "set_aside")


def test_records_of_a_deleted_topic_are_not_listed(tmp_path):
    made = StateData(tmp_path)
    gone = topic_tombstone(OFFSETS)
    made.write(made.metadata, [NewRecord(gone.value, gone.key)])
    made.write(made.offsets, [BROKEN])
    made.close()
    assert not [found for found in Inspection(tmp_path).findings() if isinstance(found, SetAsideFound)]


def test_an_undecodable_batch_is_named_from_the_first_unreadable_record(tmp_path):
    made = StateData(tmp_path)
    batch = build_batch([NewRecord(None, b"\x7f\x7f%d" % number, 0) for number in range(3)])
    header, broken = assembled(read_header(batch), batch[HEADER_SIZE:-1])
    entry = made.offsets.append(header, broken, now_ms=0).entry
    made.journal.sync(made.journal.write([entry]))
    made.close()
    (found,) = of_type(json_of(tmp_path), "set_aside")
    assert found["offset"] == 2
