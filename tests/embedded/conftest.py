"""A cluster of embedded brokers in each mode, and a topic on all of them."""

import pytest

from pipeline_broker import EmbeddedCluster


@pytest.fixture(params=["classic", "pipelined"])
def cluster(request):
    with EmbeddedCluster(mode=request.param) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster):
    """A topic with two partitions on each broker."""
    cluster.create_topic("t", partitions=6)
    return "t"
