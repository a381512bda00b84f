"""What options and arguments mean that several commands have."""

import click
import pytest

from pipeline_broker.commands.cluster.arguments import partitions_by_topic


@pytest.mark.parametrize(
    ("texts", "chosen"),
    [
        (["a"], {"a": []}),
        (["a:0,2", "b"], {"a": [0, 2], "b": []}),
        (["a:0", "a:1"], {"a": [0, 1]}),
        (["a:1,0", "b:5", "a:0,3"], {"a": [1, 0, 3], "b": [5]}),
        (["a:0", "a"], {"a": []}),
        (["a", "a:0"], {"a": []}),
        (["a:7,7"], {"a": [7]}),
    ],
)
def test_a_topic_that_is_named_several_times_has_all_of_the_partitions(texts, chosen):
    assert partitions_by_topic(texts, "TOPIC") == chosen


@pytest.mark.parametrize("text", ["", ":", ":0", "a:", "a:,", "a:x", "a:-1", "a:0:1", "a:2147483648", "a:\u0663"])
def test_what_names_no_partitions_is_refused_and_not_taken_for_all(text):
    with pytest.raises(click.UsageError, match=r"--topic: .* is not of the form TOPIC or TOPIC:0,1"):
        partitions_by_topic(["b", text], "--topic")
