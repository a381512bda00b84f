"""The wire format of Confluent's serializers."""

import pytest

from pipeline_broker.base.schema_id import head_of, read_message_path, read_schema_id


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


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("00", ((0,), 6)),
        ("0200", ((0,), 7)),
        ("0402fe01", ((1, 127), 9)),
        ("00ff", ((0,), 6)),
        ("40" + "02" * 32, ((1,) * 32, 38)),
    ],
)
def test_the_path_of_a_message_follows_the_id(path, expected):
    assert read_message_path(head_of(7) + bytes.fromhex(path)) == expected


@pytest.mark.parametrize("path", ["", "02", "0280", "0201", "42" + "02" * 33, "808080808080" + "00"])
def test_a_path_that_is_cut_off_or_has_too_many_or_negative_indexes_is_refused(path):
    with pytest.raises(ValueError, match=r"incomplete|too many|less than 0"):
        read_message_path(head_of(7) + bytes.fromhex(path))
