"""Ids as Kafka's tools print them."""

from pipeline_broker.wire.uuid_text import uuid_text


def test_an_id_is_text_as_in_kafka():
    """`Uuid.METADATA_TOPIC_ID` and `Uuid.ZERO_UUID` as their `toString` gives them, and the two letters that differ."""
    assert uuid_text(bytes(15) + b"\1") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(bytes(16)) == "A" * 22
    assert uuid_text(b"\xfb\xff" + bytes(14)) == "-_8" + "A" * 19
