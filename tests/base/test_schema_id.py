"""The wire format of Confluent's serializers."""

import pytest

from pipeline_broker.base.schema_id import read_schema_id


@pytest.mark.parametrize(
    ("content", "schema_id"),
    [
        (b"\0\0\0\0\1", 1),
        (b"\0\x7f\xff\xff\xffdata", 2**31 - 1),
        (b"\0\0\0\0", None),
        (b"\1\0\0\0\1data", None),
        (b"", None),
    ],
)
def test_the_id_follows_a_zero_byte_in_four_bytes(content, schema_id):
    assert read_schema_id(content) == schema_id
