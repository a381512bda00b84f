"""Contradictory properties are refused in one line that names both."""

import pytest

from pipeline_broker.config.assignors import CLASSES
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.settings import parse_settings

REFUSED = [
    (["queued.max.request.bytes=1000"], "it must be at least socket.request.max.bytes"),
    (["max.connections.per.ip=0"], "only with max.connections.per.ip.overrides"),
    (["group.min.session.timeout.ms=2000000"], "must not be above group.max.session.timeout.ms"),
    (["group.consumer.session.timeout.ms=1000"], r"group.consumer.min.session.timeout.ms \(45000\)"),
    (["group.consumer.heartbeat.interval.ms=16000"], r"group.consumer.max.heartbeat.interval.ms \(15000\)"),
    (["group.share.session.timeout.ms=1000"], r"group.share.min.session.timeout.ms \(45000\)"),
    (["group.share.heartbeat.interval.ms=15001"], r"group.share.max.heartbeat.interval.ms \(15000\)"),
    (["group.share.assignment.interval.ms=20000"], r"group.share.max.assignment.interval.ms \(15000\)"),
    (["group.share.record.lock.duration.ms=1000"], r"group.share.min.record.lock.duration.ms \(15000\)"),
    (["group.share.min.delivery.count.limit=5", "group.share.delivery.count.limit=4"], r"limit \(5\)"),
    (["group.share.partition.max.record.locks=5000"], r"group.share.max.partition.max.record.locks \(4000\)"),
    (
        [
            "group.share.min.session.timeout.ms=1000",
            "group.share.session.timeout.ms=5000",
        ],
        r"group.share.heartbeat.interval.ms is 5000: it must be below group.share.session.timeout.ms \(5000\)",
    ),
    (["group.share.max.share.sessions=199"], r"it must be at least group.share.max.size \(200\)"),
    (["group.consumer.assignors=mine"], "mine is not supported; use one or both of uniform, range"),
    (["group.consumer.assignors="], "an empty list is not supported"),
    ([f"group.consumer.assignors=range,{CLASSES}RangeAssignor"], "RangeAssignor names one assignor twice"),
    ([f"group.consumer.assignors={CLASSES}SimpleAssignor"], "SimpleAssignor is not supported"),
    (["group.share.assignors=mine"], "group.share.assignors: mine is not supported; use simple"),
    (["group.share.assignors="], "group.share.assignors: an empty list is not supported; use simple"),
    ([f"group.share.assignors=simple,{CLASSES}SimpleAssignor"], "SimpleAssignor names one assignor twice"),
    (["connection.failed.authentication.delay.ms=700000"], "must be below connections.max.idle.ms"),
    (["authorizer.class.name=mine"], "'mine' is not supported"),
]


@pytest.mark.parametrize(("texts", "said"), REFUSED, ids=[" ".join(texts) for texts, _ in REFUSED])
def test_contradictory_properties_are_refused(texts, said):
    with pytest.raises(ConfigError, match=said) as refused:
        parse_settings(text.split("=") for text in texts)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "texts",
    [
        ["group.share.min.session.timeout.ms=1000", "group.share.session.timeout.ms=5001"],
        ["group.share.min.record.lock.duration.ms=1000", "group.share.record.lock.duration.ms=1000"],
        ["group.share.delivery.count.limit=2"],
        ["group.share.max.share.sessions=1", "group.share.max.size=1"],
        ["group.consumer.assignors=range"],
        [f"group.share.assignors={CLASSES}SimpleAssignor"],
    ],
)
def test_consistent_properties_are_accepted(texts):
    assert parse_settings(text.split("=") for text in texts)
