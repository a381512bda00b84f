"""Topics are named, or match a pattern; internal topics match no pattern."""

import pytest

from pyspark_pipeline_broker.topic_choice import INTERNAL_TOPICS, TopicChoice

TOPICS = ("events", "events2", "evs", "other", "_schemas", *sorted(INTERNAL_TOPICS))


@pytest.mark.parametrize(
    ("said", "names"),
    [
        ({"subscribe": " events ,,evs"}, ["events", "evs"]),
        ({"subscribe": "__consumer_offsets"}, ["__consumer_offsets"]),
        ({"subscribePattern": "e.*s"}, ["events", "events2", "evs", "_schemas"]),
        ({"subscribePattern": "^e.*s$"}, ["events", "evs"]),
        ({"subscribePattern": "vents"}, ["events", "events2"]),
        ({"subscribePattern": ".*"}, ["events", "events2", "evs", "other", "_schemas"]),
        ({"subscribePattern": "__"}, []),
        ({"assign": '{"events": [1]}'}, ["events"]),
    ],
)
def test_topics_are_named_or_a_pattern_is_found_in_them(said, names):
    choice = TopicChoice.read(said)
    assert [name for name in TOPICS if choice.has(name)] == names


def test_partitions_are_those_that_are_assigned():
    choice = TopicChoice.read({"assign": '{"t": [1, 0], "u": [2]}'})
    assert (choice.names, choice.partitions) == (("t", "u"), {("t", 0), ("t", 1), ("u", 2)})


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({}, "no topic option is set. Set exactly one of assign, subscribe, subscribePattern"),
        ({"subscribe": "t", "assign": "{}"}, "assign, subscribe are set. Set exactly one of"),
        ({"subscribe": " ,"}, "subscribe names no topic"),
        ({"assign": "{}"}, "assign names no topic"),
        ({"subscribePattern": " "}, "subscribePattern is empty"),
        ({"subscribePattern": "("}, "subscribePattern is not a regular expression of Java"),
    ],
)
def test_options_without_a_topic_are_refused(said, reason):
    with pytest.raises(ValueError, match=reason):
        TopicChoice.read(said)
