"""Subscribed topics of classic consumers; unknown if a subscription is malformed."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.groups.classic.subscription import subscribed_topics
from pipeline_broker.wire.codec import encode
from pipeline_broker.wire.messages.groups.consumer_protocol import ConsumerProtocolSubscription

NAMES = st.lists(st.text(max_size=5), max_size=5)


def subscription(names, version=1):
    message = ConsumerProtocolSubscription(list(names), b"user data", [])
    return struct.pack(">h", version) + b"".join(map(bytes, encode(message, version)))


@given(st.lists(NAMES, max_size=4), st.integers(0, 3))
def test_topics_of_all_members_are_returned(members, version):
    found = subscribed_topics(subscription(names, version) for names in members)
    assert found == {name for names in members for name in names}


@pytest.mark.parametrize("names", [["a"], ["topic", "b"], ["a", "bc", "topic"]])
def test_a_truncated_subscription_makes_all_topics_unknown(names):
    whole = subscription(names)
    end = 6 + sum(2 + len(name) for name in names)
    for length in range(end):
        assert subscribed_topics([subscription(["other"]), whole[:length]]) is None
    assert subscribed_topics([whole[:end]]) == set(names)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">hi", 1, -1),
        struct.pack(">hi", 1, 2**31 - 1) + bytes(100),
        struct.pack(">hih", 1, 1, -1) + bytes(10),
        struct.pack(">hih", 1, 1, 11) + bytes(10),
    ],
    ids=["negative count", "count too large", "negative length", "length beyond the end"],
)
def test_a_malformed_subscription_makes_all_topics_unknown(data):
    assert subscribed_topics([data]) is None


def test_a_name_that_is_not_utf8_is_replaced():
    assert subscribed_topics([struct.pack(">hih", 1, 1, 3) + b"a\xffb"]) == {"a\ufffdb"}
