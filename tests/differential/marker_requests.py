"""Requests about the ends of transactions in partitions, drawn by Hypothesis.

Markers have the time of each broker, so they go to a topic of their own, from which nothing is read. None names a
partition twice, and where there are several each names one that exists: Kafka would miscount what it waits for, and
the client would wait for ever.
"""

from __future__ import annotations

from hypothesis import strategies as st

from pipeline_broker.wire.messages.transactions.describe_producers import DescribeProducersRequest
from pipeline_broker.wire.messages.transactions.write_txn_markers import WriteTxnMarkersRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.data_requests import BAD_NAMES, Ask, ask, partitions, topics

MARKED_TOPICS = {"marked": 2}
TRANSACTION_VERSION_FROM = 2
OUR_PRODUCERS = range(10**9, 10**9 + 3)
"""Ids that no broker gives out here: what is known of them is the same everywhere."""


@st.composite
def describe_producers(draw: st.DrawFn, version: int) -> Ask:
    names = st.sampled_from([*MARKED_TOPICS, *MARKED_TOPICS]) | topics
    wanted = draw(st.lists(st.tuples(names, st.lists(partitions, max_size=3)), max_size=3))
    topic = DescribeProducersRequest.TopicRequest
    return ask(version, DescribeProducersRequest([topic(name, indexes) for name, indexes in wanted]))


@st.composite
def write_txn_markers(draw: st.DrawFn, version: int) -> Ask:
    asked = WriteTxnMarkersRequest
    markers = []
    count = draw(st.integers(0, 3))
    parts = st.lists(partitions, max_size=3, unique=True)
    for _ in range(count):
        existing = [0, *draw(st.sampled_from([[], [1], [1, 5]]))] if count > 1 or draw(st.booleans()) else []
        others = st.tuples(st.sampled_from(["missing", *BAD_NAMES[1:4]]), parts)
        wanted = [("marked", existing), *draw(st.lists(others, max_size=2, unique_by=lambda each: each[0]))]
        marker = asked.WritableTxnMarker(
            producer_id=draw(st.sampled_from(OUR_PRODUCERS)),
            producer_epoch=draw(st.integers(0, 3)),
            transaction_result=draw(st.booleans()),
            topics=[asked.WritableTxnMarkerTopic(name, indexes) for name, indexes in wanted],
            coordinator_epoch=draw(st.integers(0, 2)),
        )
        if version >= TRANSACTION_VERSION_FROM:
            marker.transaction_version = draw(st.integers(0, 2))
        markers.append(marker)
    return ask(version, asked(markers))


MARKER_REQUESTS = {
    ApiKey.DESCRIBE_PRODUCERS: describe_producers,
    ApiKey.WRITE_TXN_MARKERS: write_txn_markers,
}
