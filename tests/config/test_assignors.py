"""Assignors go by their names or by those of Kafka's classes, and are those that there are."""

from pipeline_broker.broker.groups import group_settings
from pipeline_broker.config.assignors import (
    CLASSES,
    CONSUMER_ASSIGNORS,
    SHARE_ASSIGNORS,
    consumer_assignors,
    share_assignor,
)
from pipeline_broker.config.settings import parse_settings
from pipeline_broker.state.groups.consumer import assigning
from pipeline_broker.state.groups.share import assignor


def test_what_may_be_named_is_there():
    assert CONSUMER_ASSIGNORS.keys() == assigning.ASSIGNORS.keys()
    assert SHARE_ASSIGNORS.keys() == assignor.ASSIGNORS.keys()


def test_a_class_is_the_assignor_of_its_name_and_the_order_stays():
    assert consumer_assignors([f"{CLASSES}RangeAssignor", "uniform"]) == ("range", "uniform")
    assert share_assignor([f"{CLASSES}SimpleAssignor"]) == "simple"


def test_a_name_that_stands_twice_counts_once():
    assert consumer_assignors(["range", "range"]) == ("range",)
    assert share_assignor(["simple", "simple"]) == "simple"


def test_groups_hear_of_assignors_by_their_names():
    config, warnings = parse_settings([("group.consumer.assignors", f"{CLASSES}RangeAssignor, uniform")])
    assert (group_settings(config).consumer_assignors, warnings) == (("range", "uniform"), [])
