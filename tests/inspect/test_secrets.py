"""`inspect` shows the broker's own records without the secrets in them."""

import json
import struct

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.inspect.secrets import without_secrets
from pipeline_broker.records.record import Record
from pipeline_broker.security.scram_users import ScramUsers, Upsertion
from pipeline_broker.state.dynamic_settings import DynamicSettings
from pipeline_broker.state.metadata_records import METADATA_TOPIC_ID

SALTED = b"a salted password of 32 bytes..."


def shown(write, topic_id=METADATA_TOPIC_ID):
    return [without_secrets(topic_id, Record(0, 0, one.key, one.value, (), -1)) for one in write.records]


def test_scram_credentials_are_hidden():
    _, write = ScramUsers().alter([], [Upsertion("bob", 1, 8192, b"the salt", SALTED)])
    assert b"bob" in b"".join(record.key for record in shown(write))
    assert {record.value for record in shown(write)} == {b"[hidden]"}


def test_sensitive_settings_are_hidden_and_others_are_not():
    settings = {
        "listener.name.tls.ssl.key.password": "deep",
        "listener.name.sasl.plain.sasl.jaas.config": "deep",
        "plugin.token": "deep",
        "num.io.threads": "16",
    }
    (record,) = shown(DynamicSettings().alter(("broker", "1"), settings))
    found = json.loads(record.value[2:])
    assert found == dict.fromkeys(settings, "[hidden]") | {"num.io.threads": "16"}


@given(key=st.binary(max_size=6), value=st.none() | st.binary(max_size=6), topic_id=st.binary(min_size=16, max_size=16))
def test_records_of_topics_and_foreign_records_are_shown(key, value, topic_id):
    record = Record(0, 0, key, value, (), -1)
    if topic_id != METADATA_TOPIC_ID:
        assert without_secrets(topic_id, record) is record
    hidden = without_secrets(METADATA_TOPIC_ID, record)
    if len(key) < 2 or struct.unpack_from(">h", key)[0] not in {4, 5} or value is None:
        assert hidden is record
    else:
        assert hidden.value == b"[hidden]" or json.loads(hidden.value[2:]) is not None


def test_hidden_secrets_were_in_the_records():
    _, write = ScramUsers().alter([], [Upsertion("bob", 1, 8192, b"the salt", SALTED)])
    assert any(b"stored_key" in record.value for record in write.records)
    assert not any(b"stored_key" in record.value for record in shown(write))
