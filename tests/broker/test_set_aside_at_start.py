"""Records that a startup sets aside, case by case: one log line names the record, and no state has changed."""

import logging

import pytest

from pipeline_broker.broker.appended import Appended
from pipeline_broker.records.batch import HEADER_SIZE, NewRecord, assembled, build_batch, read_header
from pipeline_broker.state.epochs import EPOCH_MAX
from pipeline_broker.state.groups.consumer.member import ClassicMetadata, MemberMetadata
from pipeline_broker.state.groups.consumer.records import LAYOUTS
from pipeline_broker.state.groups.consumer.updates import GroupEpoch, Subject
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.state.groups.modern.layouts import record_of
from pipeline_broker.state.groups.modern.updates import Update
from pipeline_broker.state.groups.offset_records import CommittedOffset, OffsetKey, offset_record, offset_tombstone
from pipeline_broker.state.groups.share.records import group_record
from pipeline_broker.state.groups.share.share_group import ShareGroup
from pipeline_broker.state.internal_topics import METADATA_TOPIC, OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from pipeline_broker.state.metadata_records import METADATA_TOPIC_ID, Topic, topic_record
from pipeline_broker.state.set_aside import LINES_MAX
from pipeline_broker.state.share_coordinator.records import ShareKey, snapshot_record
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.group_metadata_record import GroupMetadataKey, GroupMetadataValue
from pipeline_broker.wire.messages.share.share_group_heartbeat import ShareGroupHeartbeatRequest
from pipeline_broker.wire.messages.share.share_state_records import ShareSnapshotValue
from tests.apis.share.share_desk import ShareDesk
from tests.broker.replay_desk import TOPIC, seen, with_state
from tests.coordinators import coordinator_of
from tests.state_records import SUBSCRIPTION, encoded
from tests.strange_state import ask_about_everything, let_time_pass

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def sound():
    return with_state()


@pytest.fixture
def desk(sound):
    return sound.copy()


def pair(record):
    return record.key, record.value


def lines(caplog):
    return [record.getMessage() for record in caplog.records if "set aside" in record.getMessage()]


def started(desk, caplog, *found):
    """Start a broker with further records, pairs by topic; return it and the records that it set aside."""
    for topic, record in found:
        desk.append(topic, desk.partition(topic), [record])
    with caplog.at_level(logging.WARNING):
        again = desk.restart()
    return again, [(record.topic, record.partition, record.reason) for record in again.broker.set_aside.records]


def updated(subject, value, name="", group="new"):
    return pair(record_of(LAYOUTS, group, Update(subject, name, value)))


def member(*protocols, instance=None):
    classic = ClassicMetadata(30_000, tuple(protocols)) if protocols else None
    return MemberMetadata(instance_id=instance, client_id="c", client_host="h", rebalance_timeout_ms=1, classic=classic)


def group_value(**fields):
    """Return the record of a classic group `new`."""
    value = GroupMetadataValue(**{"protocol_type": "consumer", "protocol": "range", "leader": "m"} | fields)
    return encoded(2, GroupMetadataKey("new"), 0), encoded(3, value, 3)


def classic_member(member_id="m", instance=None, **fields):
    times = {"rebalance_timeout": 0, "session_timeout": 0} | fields
    return GroupMetadataValue.MemberMetadata(member_id, instance, "c", "h", subscription=SUBSCRIPTION, **times)


@pytest.mark.parametrize("topic", [OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC, METADATA_TOPIC])
def test_an_unreadable_record_is_named_in_one_line(desk, caplog, topic):
    expected = seen(desk)
    offset = desk.broker.logs.find(topic, desk.partition(topic)).log_end_offset
    again, _ = started(desk, caplog, (topic, (b"x", b"y")))
    (line,) = lines(caplog)
    assert line.startswith(f"{topic}-{desk.partition(topic)} offset {offset} is set aside: ")
    assert again.broker.set_aside.count == 1
    assert seen(again) == expected


def test_the_records_around_it_apply(desk, caplog):
    """Even those of the same batch."""
    sound = [offset_record(OffsetKey("new", TOPIC, 0), CommittedOffset(number)) for number in (1, 2)]
    desk.append(OFFSETS_TOPIC, 0, [pair(sound[0]), (sound[0].key, b"\0"), pair(sound[1])])
    again, _ = started(desk, caplog)
    assert len(lines(caplog)) == 1
    (found,) = coordinator_of(again.broker, "new").fetch("new")
    assert found.committed.offset == 2


def test_the_previous_value_applies_if_the_latest_cannot_be_read(desk, caplog):
    record = offset_record(OffsetKey("new", TOPIC, 0), CommittedOffset(5))
    again, _ = started(desk, caplog, (OFFSETS_TOPIC, pair(record)), (OFFSETS_TOPIC, (record.key, b"\0\x63")))
    (found,) = coordinator_of(again.broker, "new").fetch("new")
    assert found.committed.offset == 5


def test_a_tombstone_lets_a_compacted_topic_lose_the_record(desk, caplog):
    record = offset_record(OffsetKey("new", TOPIC, 0), CommittedOffset(5))
    desk.append(OFFSETS_TOPIC, 0, [(record.key, b"\0\x63")])
    desk = desk.restart()
    assert desk.broker.set_aside.count == 1
    assert desk.produce(OFFSETS_TOPIC, 0, [pair(offset_tombstone(OffsetKey("new", TOPIC, 0)))]).error_code == 0
    desk.compact_all()
    _, found = started(desk, caplog)
    assert not found


def test_unreadable_records_beyond_the_first_lines_are_counted(desk, caplog):
    desk.append(OFFSETS_TOPIC, 0, [(b"x", None)] * (LINES_MAX + 7))
    again, _ = started(desk, caplog)
    assert len(lines(caplog)) == LINES_MAX + 1
    assert lines(caplog)[-1].startswith("7 more records")
    assert (again.broker.set_aside.count, len(again.broker.set_aside.records)) == (LINES_MAX + 7, LINES_MAX)


def test_a_malformed_batch_is_set_aside_from_its_first_unreadable_record(desk, caplog):
    batch = build_batch([NewRecord(None, b"\x7f\x7f%d" % number, 0) for number in range(3)])
    header, broken = assembled(read_header(batch), batch[HEADER_SIZE:-1])
    log = desk.broker.logs.find(OFFSETS_TOPIC, 0)
    desk.commit([log.append(header, broken, desk.now_ms).entry])
    again, _ = started(desk, caplog)
    (record,) = again.broker.set_aside.records
    assert record.offset == log.log_end_offset - 1


def test_a_set_aside_record_is_shown_as_one_printable_line(desk, caplog):
    key = OffsetKey("new\n\x1b[31m" + "x" * 30_000, TOPIC, 0)
    started(
        desk,
        caplog,
        (OFFSETS_TOPIC, updated(Subject.GROUP_EPOCH, GroupEpoch(1), group=key.group_id)),
        (OFFSETS_TOPIC, (encoded(2, GroupMetadataKey(key.group_id), 0), group_value()[1])),
    )
    (line,) = lines(caplog)
    assert line.isprintable()
    assert len(line) < 2_000


# Transactions and markers


@pytest.mark.parametrize("topic", [TRANSACTIONS_TOPIC, SHARE_TOPIC])
@pytest.mark.parametrize("committed", [True, False])
def test_markers_in_topics_of_other_coordinators_are_ignored(desk, caplog, topic, committed):
    """A client that may write there may use a transaction. Its marker concerns no id."""
    producer = {"producer_id": 900, "producer_epoch": 0, "base_sequence": 0}
    desk.append(topic, 1, [(b"\x7f\x7fof a type that is not known", b"v")], transactional=True, **producer)
    log = desk.broker.logs.find(topic, 1)
    desk.commit([log.append_marker(900, 0, committed=committed, coordinator_epoch=0, now_ms=1, version=0).entry])
    _, found = started(desk, caplog)
    assert not found


def test_an_unreadable_record_of_a_transaction_is_set_aside(desk, caplog):
    desk.append(OFFSETS_TOPIC, 0, [(b"\0\1\0", b"v")], producer_id=900, producer_epoch=0, transactional=True)
    _, found = started(desk, caplog)
    assert len(found) == 1


# Groups of other kinds


KINDS = {
    GroupType.CLASSIC: group_value(),
    GroupType.CONSUMER: updated(Subject.GROUP_EPOCH, GroupEpoch(4)),
    GroupType.SHARE: pair(group_record(ShareGroup("new"))),
}


@pytest.mark.parametrize("there", KINDS)
@pytest.mark.parametrize("comes", KINDS)
def test_a_group_keeps_its_type_until_it_is_deleted(desk, caplog, there, comes):
    again, found = started(desk, caplog, (OFFSETS_TOPIC, KINDS[there]), (OFFSETS_TOPIC, KINDS[comes]))
    assert len(found) == (there is not comes)
    assert coordinator_of(again.broker, "new").registry.get("new").group_type is there


@pytest.mark.parametrize("there", KINDS)
@pytest.mark.parametrize("comes", KINDS)
def test_after_its_tombstone_a_group_may_have_another_type(desk, caplog, there, comes):
    gone = (KINDS[there][0], None)
    again, found = started(desk, caplog, *((OFFSETS_TOPIC, record) for record in (KINDS[there], gone, KINDS[comes])))
    assert not found
    assert coordinator_of(again.broker, "new").registry.get("new").group_type is comes


@pytest.mark.parametrize("comes", [GroupType.CONSUMER, GroupType.SHARE])
def test_a_deleted_group_of_another_type_is_not_shown(desk, caplog, comes):
    offset = OffsetKey("new", TOPIC, 0)
    records = [pair(offset_record(offset, CommittedOffset(5))), KINDS[comes]]
    records += [(KINDS[comes][0], None), pair(offset_tombstone(offset))]
    again, found = started(desk, caplog, *((OFFSETS_TOPIC, record) for record in records))
    assert not found
    assert coordinator_of(again.broker, "new").registry.shown("new") is None


@pytest.mark.parametrize("comes", KINDS)
def test_a_group_with_offsets_only_may_get_any_type(desk, caplog, comes):
    offset = pair(offset_record(OffsetKey("new", TOPIC, 0), CommittedOffset(5)))
    again, found = started(desk, caplog, (OFFSETS_TOPIC, offset), (OFFSETS_TOPIC, KINDS[comes]))
    assert not found
    assert coordinator_of(again.broker, "new").registry.shown("new").group_type is comes


# Groups that contradict themselves


@pytest.mark.parametrize(
    "record",
    [
        group_value(members=[classic_member(), classic_member()]),
        group_value(members=[classic_member("a", "i"), classic_member("b", "i")]),
        group_value(members=[classic_member()], protocol=None),
        updated(Subject.MEMBER, member(("range", b"\xff")), "m"),
        (updated(Subject.MEMBER, member(("range", SUBSCRIPTION)), "m")[0], b"\0\0"),
    ],
)
def test_an_impossible_group_is_set_aside(desk, caplog, record):
    again, found = started(desk, caplog, (OFFSETS_TOPIC, record))
    assert len(found) == 1
    assert coordinator_of(again.broker, "new").registry.get("new") is None


def test_a_classic_group_at_the_last_generation_continues(desk, caplog):
    again, _ = started(desk, caplog, (OFFSETS_TOPIC, group_value(members=[classic_member()], generation=EPOCH_MAX)))
    let_time_pass(again, MINUTE_MS)
    group = coordinator_of(again.broker, "new").registry.get("new")
    assert (group.state_name, group.generation_id) == ("Empty", 1)
    assert not again.restart().broker.set_aside.count


def test_static_members_with_a_zero_timeout_do_not_make_the_timer_spin(desk, caplog):
    """With a rebalance timeout of 0 the round that waits for them would expire again at once."""
    member = classic_member(instance="i", rebalance_timeout=0, session_timeout=10 * MINUTE_MS)
    gone = classic_member("gone", session_timeout=1)
    again, _ = started(desk, caplog, (OFFSETS_TOPIC, group_value(members=[member, gone])))
    again.now_ms += MINUTE_MS
    again.broker.advance(again.now_ms)
    assert again.broker.groups.next_deadline_ms() > again.now_ms


@pytest.mark.parametrize(
    "record", [updated(Subject.GROUP_EPOCH, GroupEpoch(EPOCH_MAX)), pair(group_record(ShareGroup("new", EPOCH_MAX)))]
)
def test_a_group_at_the_last_epoch_continues(desk, caplog, record):
    again, found = started(desk, caplog, (OFFSETS_TOPIC, record))
    assert not found
    consumer = ConsumerGroupHeartbeatRequest("new", "m", 0, rebalance_timeout_ms=1, topic_partitions=[])
    consumer.subscribed_topic_names = [TOPIC]
    share = ShareGroupHeartbeatRequest("new", "m", 0, subscribed_topic_names=[TOPIC])
    codes = [again.ask(consumer, 1).error_code, again.ask(share, 1).error_code]
    assert 0 in codes
    assert not again.restart().broker.set_aside.count


@pytest.mark.parametrize(
    "others",
    [
        [member(("range", SUBSCRIPTION)), member(("sticky", SUBSCRIPTION))],
        [member(("range", SUBSCRIPTION), instance="i"), member(("range", SUBSCRIPTION), instance="i")],
    ],
)
def test_members_that_a_classic_group_cannot_have_stay_in_their_consumer_group(desk, caplog, others):
    """The last member of the consumer protocol leaves. The group becomes classic if its other members allow that."""
    records = [updated(Subject.GROUP_EPOCH, GroupEpoch(4)), updated(Subject.MEMBER, member(), "consumer")]
    records += [updated(Subject.MEMBER, each, f"m{number}") for number, each in enumerate(others)]
    again, found = started(desk, caplog, *((OFFSETS_TOPIC, record) for record in records))
    assert not found
    assert again.broker.groups.expire_member("new", "consumer", again.now_ms)
    group = coordinator_of(again.broker, "new").registry.get("new")
    assert (group.group_type, sorted(group.members)) == (GroupType.CONSUMER, ["m0", "m1"])


# Share partitions


def share_state(desk, *batches, **fields):
    topic = desk.broker.topics.get(TOPIC)
    value = ShareSnapshotValue(
        **{"snapshot_epoch": 0, "state_epoch": 0, "leader_epoch": 0, "start_offset": 0} | fields,
        state_batches=[ShareSnapshotValue.StateBatch(*batch) for batch in batches],
    )
    return pair(snapshot_record(ShareKey("g", topic.topic_id, 1), value))


@pytest.mark.parametrize("batch", [(5, 3, 0, 1), (-1, 3, 0, 1), (0, 2**63 - 1, 0, 1), (0, 3, 0, -1), (0, 3, 9, 1)])
def test_impossible_batches_are_set_aside_with_their_share_partition(desk, caplog, batch):
    _, found = started(desk, caplog, (SHARE_TOPIC, share_state(desk, batch)))
    assert [topic for topic, _, _ in found] == [SHARE_TOPIC]


LAST_EPOCHS = [{"leader_epoch": EPOCH_MAX}, {"snapshot_epoch": EPOCH_MAX, "state_epoch": EPOCH_MAX}]


@pytest.mark.parametrize("fields", LAST_EPOCHS)
@pytest.mark.parametrize("start_offset", [0, -1])
def test_a_share_partition_at_its_last_epochs_can_be_fetched_and_reset(desk, caplog, fields, start_offset):
    again, found = started(desk, caplog, (SHARE_TOPIC, share_state(desk, start_offset=start_offset, **fields)))
    assert not found
    sharing = ShareDesk(desk=again, topic=TOPIC)
    sharing.produce(5, partition=1)
    sharing.fetch(0, [1])
    sharing.fetch(1, [1], {1: [(0, 1, [1])]})
    key = ShareKey("g", sharing.topic_id, 1)
    assert again.broker.share.manager.states.find(key).start_offset == 2
    ask_about_everything(again)
    let_time_pass(again, MINUTE_MS)
    appended = Appended()
    again.broker.share.manager.set_start(key, 4, appended, again.now_ms)
    again.submit(appended.entries, appended.durable)
    after = again.restart().broker
    assert not after.set_aside.count
    assert after.share.manager.states.find(key).start_offset == 4


# Topics


@pytest.mark.parametrize(
    "topic",
    [
        Topic("other", METADATA_TOPIC_ID, 1),
        Topic(METADATA_TOPIC, b"i" * 16, 1),
        Topic("../escapes", b"i" * 16, 1),
        Topic("many", b"i" * 16, 10**9),
        Topic("configured", b"i" * 16, 1, {"retention.ms": "soon"}),
    ],
)
def test_an_impossible_topic_is_set_aside(desk, caplog, topic):
    expected = seen(desk)
    again, found = started(desk, caplog, (METADATA_TOPIC, pair(topic_record(topic))))
    assert len(found) == 1
    assert seen(again) == expected
    assert again.broker.topics.get(topic.name) is None


def test_a_topic_with_the_id_of_another_is_set_aside(desk, caplog):
    expected = seen(desk)
    other = Topic("other", desk.broker.topics.get(TOPIC).topic_id, 1)
    again, found = started(desk, caplog, (METADATA_TOPIC, pair(topic_record(other))))
    assert len(found) == 1
    assert seen(again) == expected


def test_the_archive_removes_unknown_partitions_only_if_all_metadata_was_read(desk, caplog):
    """An unreadable record may be that of a topic with data in the archive."""
    assert desk.restart().broker.logs.knows_all_topics
    desk = desk.restart()
    again, _ = started(desk, caplog, (METADATA_TOPIC, (b"\0\1lost", b"\0\0{")))
    assert not again.broker.logs.knows_all_topics
