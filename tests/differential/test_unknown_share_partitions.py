"""Offsets of a share group in partitions that there are not.

Kafka asks itself for their state again and again before it answers (PersisterStateManager, five attempts): half a
minute, during which the other tests of this folder run.
"""

import pytest

from pipeline_broker.wire.registry import ApiKey
from tests.differential.comparison import differing
from tests.differential.share_requests import UNKNOWN_PARTITIONS, describe_unknown

pytestmark = pytest.mark.xdist_group("kafka")


def test_partitions_that_there_are_not_are_described_as_kafka_describes_them(started):
    sides, asked = started.sides, started.answers
    for (version, partitions), answers in zip(UNKNOWN_PARTITIONS, asked, strict=True):
        ask = describe_unknown(version, partitions)
        assert differing(sides, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, ask, answers.result()) == []
