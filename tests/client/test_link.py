"""One connection to a broker: why it broke."""

from pipeline_broker.client.link import Link


def test_a_connection_tells_what_broke_it_first():
    link = Link(None, "host:9092")
    for why in ("the broker closed the connection", "the probe is done"):
        link.fail(why)
    assert link.is_broken
    assert link.why == "the broker closed the connection"
