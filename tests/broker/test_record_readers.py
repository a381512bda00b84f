"""Any bytes in a record of an internal topic are decoded, skipped or rejected as corrupt."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline_broker.broker.record_readers import is_known_of, reader_of
from pipeline_broker.state.errors import CorruptStateRecordError
from pipeline_broker.state.internal_topics import METADATA_TOPIC
from tests.crashes.lengths import examples
from tests.state_records import DEEP, METADATA, TOPICS, any_records, sound


@pytest.mark.parametrize("topic", TOPICS)
@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_a_reader_returns_or_raises_corrupt_state_record_error(topic, data):
    key, value = data.draw(any_records(topic))
    with contextlib.suppress(CorruptStateRecordError):
        reader_of(topic)(key or b"", value)


@pytest.mark.parametrize("topic", TOPICS)
@settings(max_examples=examples(300), deadline=None)
@given(data=st.data())
def test_a_startup_decodes_every_record_that_the_reader_accepts_or_rejects(topic, data):
    key, value = data.draw(any_records(topic))
    try:
        is_nothing = reader_of(topic)(key or b"", value) is None
    except CorruptStateRecordError:
        is_nothing = False
    assert is_nothing or is_known_of(topic)(key)


@pytest.mark.parametrize(
    "record", [record for _, record in sorted(METADATA.items())], ids=lambda record: repr(record.key[:2])
)
def test_sound_records_of_the_metadata_partition_are_read(record):
    assert reader_of(METADATA_TOPIC)(record.key, record.value) is not None


@pytest.mark.parametrize("topic", TOPICS)
def test_an_unknown_type_is_skipped(topic):
    assert reader_of(topic)(b"\x7f\x7fwhatever", b"whatever") is None
    assert not is_known_of(topic)(b"\x7f\x7fwhatever")


def test_a_topic_without_state_has_no_reader():
    assert reader_of("__request_timelines") is None


def test_json_that_nests_too_deep_is_corrupt():
    for record in METADATA.values():
        if record.value[2:].startswith(b"{"):
            with pytest.raises(CorruptStateRecordError):
                reader_of(METADATA_TOPIC)(record.key, DEEP)


def test_the_reason_contains_no_secret():
    for key, value in sound(METADATA_TOPIC):
        broken = value.replace(b'"', b"'")
        if broken != value:
            with pytest.raises(CorruptStateRecordError) as error:
                reader_of(METADATA_TOPIC)(key, broken)
            assert "c2FsdA" not in str(error.value)
