"""A client may append only records to internal topics that the next startup can read."""

import functools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipeline_broker.apis.data.internal_topics import STATE_RECORDS_MAX
from pipeline_broker.apis.data.produce import ADMIN_CLIENT_ID
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from pipeline_broker.records.check import RECORD_ERRORS_MAX
from pipeline_broker.state.groups.offset_records import CommittedOffset, OffsetKey, offset_record
from pipeline_broker.state.internal_topics import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from stages.request import Pending, Unfinished
from tests.broker.replay_desk import SETTINGS, UNKNOWN_TYPE, ReplayDesk, produce_request
from tests.coordinators import coordinator_of
from tests.crashes.lengths import examples
from tests.drawn import drawn, measured
from tests.state_records import MESSAGES, any_records, foreign_key

INTERNAL = (OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_TOPIC)
INVALID = ErrorCode.INVALID_RECORD
SOUND = offset_record(OffsetKey("new", "t", 0), CommittedOffset(5))
BROKEN = (SOUND.key, b"\0\x63")


@functools.cache
def empty():
    """A broker without any coordinator state."""
    desk = ReplayDesk(*SETTINGS)
    for topic in INTERNAL:
        desk.create_topic(topic)
    return desk


@pytest.fixture
def desk():
    return empty().copy()


@pytest.mark.parametrize("topic", INTERNAL)
@measured(refused=0.05, taken=0.05)
@settings(max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_records_that_startup_could_not_read_are_refused(topic, data):
    """Each record alone, without contradicting earlier state."""
    deletions = [(foreign_key(kind, key), None) for kind, (key, _) in MESSAGES[topic].items()]
    record = data.draw(any_records(topic) if data.draw(st.booleans()) else st.sampled_from(deletions))
    desk = empty().copy()
    answer = desk.produce(topic, 1, [record])
    assert answer.error_code in {0, INVALID}
    if drawn("taken", not answer.error_code):
        assert desk.restart().broker.set_aside.count == 0
        return
    drawn("refused")
    assert [problem.batch_index for problem in answer.record_errors] == [0]
    desk.append(topic, 1, [record])
    assert desk.restart().broker.set_aside.count == 1


@measured(unknown=0.5)
@settings(max_examples=30, deadline=None)
@given(key=st.binary(min_size=2, max_size=8), value=st.none() | st.binary(max_size=8))
def test_an_unknown_record_type_is_accepted_and_skipped(key, value):
    if not drawn("unknown", int.from_bytes(key[:2], signed=True) not in range(20)):
        return
    desk = empty().copy()
    for topic in INTERNAL:
        assert desk.produce(topic, 0, [(key, value)]).error_code == 0
    assert desk.restart().broker.set_aside.count == 0


def test_the_records_that_are_refused_are_named_and_nothing_is_appended(desk):
    sound = (SOUND.key, SOUND.value)
    answer = desk.produce(OFFSETS_TOPIC, 0, [sound, BROKEN, sound, (b"\0", None)])
    assert answer.error_code == INVALID
    assert [problem.batch_index for problem in answer.record_errors] == [1, 3]
    assert "has no version 99" in answer.record_errors[0].batch_index_error_message
    assert OFFSETS_TOPIC in answer.error_message
    assert desk.broker.logs.find(OFFSETS_TOPIC, 0).log_end_offset == 0


def test_no_more_are_named_than_of_other_refusals(desk):
    answer = desk.produce(OFFSETS_TOPIC, 0, [BROKEN] * (RECORD_ERRORS_MAX + 1))
    assert len(answer.record_errors) == RECORD_ERRORS_MAX


@pytest.mark.parametrize("record", [(SOUND.key, SOUND.value), (UNKNOWN_TYPE, None)], ids=["known", "unknown"])
def test_a_batch_has_no_more_records_than_a_start_reads_in_an_instant(desk, record):
    answer = desk.produce(OFFSETS_TOPIC, 0, [record] * (STATE_RECORDS_MAX + 1))
    assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert desk.broker.logs.find(OFFSETS_TOPIC, 0).log_end_offset == 0
    assert desk.produce(OFFSETS_TOPIC, 0, [record] * STATE_RECORDS_MAX).error_code == 0


@pytest.mark.parametrize(("count", "kind"), [(STATE_RECORDS_MAX // 100, Pending), (STATE_RECORDS_MAX, Unfinished)])
def test_records_are_read_in_turns_where_they_are_many(desk, count, kind):
    desk.client_id = ADMIN_CLIENT_ID
    message = produce_request(OFFSETS_TOPIC, 0, build_batch([NewRecord(SOUND.value, SOUND.key, desk.now_ms)] * count))
    assert type(desk.decide(message, 9)) is kind


def test_a_large_batch_of_an_older_release_is_replayed(desk):
    desk.append(OFFSETS_TOPIC, 0, [(UNKNOWN_TYPE, None)] * (STATE_RECORDS_MAX + 1) + [(SOUND.key, SOUND.value)])
    assert coordinator_of(desk.restart().broker, "new").fetch("new")


def test_every_request_is_checked_even_if_a_similar_one_was_accepted(desk):
    """Similar requests take the fast path to other topics."""
    for _ in range(3):
        assert desk.produce(OFFSETS_TOPIC, 0, [(SOUND.key, SOUND.value)]).error_code == 0
    broken = BROKEN[1].ljust(len(SOUND.value), b"\0")
    assert desk.produce(OFFSETS_TOPIC, 0, [(SOUND.key, broken)]).error_code == INVALID


def test_batches_after_a_refused_one_of_an_idempotent_producer_are_refused(desk):
    producer = {"producer_id": 7, "producer_epoch": 0}
    assert desk.produce(OFFSETS_TOPIC, 0, [BROKEN], base_sequence=0, **producer).error_code == INVALID
    later = desk.produce(OFFSETS_TOPIC, 0, [(SOUND.key, SOUND.value)], base_sequence=1, **producer)
    assert later.error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_any_other_client_may_not_write_there_at_all(desk):
    answer = desk.produce(OFFSETS_TOPIC, 0, [(SOUND.key, SOUND.value)], client_id="anybody")
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_malformed_batch_is_refused_as_such(desk):
    """The checksum is checked before the records."""
    assert desk.produce(OFFSETS_TOPIC, 0, [BROKEN], damage=True).error_code == ErrorCode.CORRUPT_MESSAGE
