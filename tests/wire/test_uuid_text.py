"""UUIDs as Kafka's tools print them."""

from pipeline_broker.wire.uuid_text import uuid_text


def test_uuid_text_equals_kafkas():
    """`Uuid.METADATA_TOPIC_ID`, `Uuid.ZERO_UUID`, and the two characters that differ from standard base64."""
    assert uuid_text(bytes(15) + b"\1") == "AAAAAAAAAAAAAAAAAAAAAQ"
    assert uuid_text(bytes(16)) == "A" * 22
    assert uuid_text(b"\xfb\xff" + bytes(14)) == "-_8" + "A" * 19
