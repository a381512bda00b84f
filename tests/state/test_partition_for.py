"""Placement of groups and transactional ids."""

import pytest

from pipeline_broker.state.partition_for import partition_for


@pytest.mark.parametrize(
    ("group_id", "expected"),
    [("", 0), ("g", 3), ("console-consumer-1", 24), ("grüße", 23), ("a😀", 16), ("polygenelubricants", 0)],
)
def test_partition_equals_kafkas(group_id, expected) -> None:
    """Java's hash of the UTF-16 text; the hash of the last example is the smallest int."""
    assert partition_for(group_id, 50) == expected
