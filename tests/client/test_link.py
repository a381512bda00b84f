"""The reason for which a link is broken."""

from pipeline_broker.client.link import Link


def test_a_link_keeps_the_first_reason_of_its_failure():
    link = Link(None, "host:9092")
    for why in ("the broker closed the connection", "the probe is done"):
        link.fail(why)
    assert link.is_broken
    assert link.why == "the broker closed the connection"
