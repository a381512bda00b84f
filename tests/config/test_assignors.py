"""Settings name assignors by short names or by Kafka's classes."""

from pipeline_broker.config.assignors import (
    CLASSES,
    CONSUMER_ASSIGNORS,
    SHARE_ASSIGNORS,
    STREAMS_ASSIGNORS,
    STREAMS_CLASSES,
    consumer_assignors,
    share_assignor,
    streams_assignors,
)
from pipeline_broker.config.group_settings import StreamsGroupSettings
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.state.groups.consumer import assigning
from pipeline_broker.state.groups.share import assignor
from pipeline_broker.state.groups.streams.assignors import by_name


def test_every_assignor_that_can_be_named_exists():
    assert CONSUMER_ASSIGNORS.keys() == assigning.ASSIGNORS.keys()
    assert SHARE_ASSIGNORS.keys() == assignor.ASSIGNORS.keys()
    assert STREAMS_ASSIGNORS.keys() == set(by_name.NAMES)


def test_a_class_name_selects_the_assignor_and_the_order_is_kept():
    assert consumer_assignors([f"{CLASSES}RangeAssignor", "uniform"]) == ("range", "uniform")
    assert share_assignor([f"{CLASSES}SimpleAssignor"]) == "simple"
    assert streams_assignors([f"{STREAMS_CLASSES}StickyTaskAssignor"]) == ("sticky",)


def test_a_repeated_name_counts_once():
    assert consumer_assignors(["range", "range"]) == ("range",)
    assert share_assignor(["simple", "simple"]) == "simple"


def test_groups_use_the_short_names_of_assignors():
    name = f"{STREAMS_CLASSES}StickyTaskAssignor"
    config, _ = parse_settings([("group.streams.assignors", name)])
    assert StreamsGroupSettings.of(config, {}).assignor_name == "sticky"
    config, warnings = parse_settings([("group.consumer.assignors", f"{CLASSES}RangeAssignor, uniform")])
    assert (config.consumer_assignors, warnings) == (("range", "uniform"), [])
