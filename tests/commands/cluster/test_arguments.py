"""Arguments that several commands share."""

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
def test_partitions_of_a_repeated_topic_are_combined(texts, chosen):
    assert partitions_by_topic(texts, "TOPIC") == chosen


@pytest.mark.parametrize("text", ["", ":", ":0", "a:", "a:,", "a:x", "a:-1", "a:0:1", "a:2147483648", "a:\u0663"])
def test_an_empty_list_of_partitions_is_rejected_and_does_not_mean_all(text):
    with pytest.raises(click.UsageError, match=r"--topic: .* is not of the form TOPIC or TOPIC:0,1"):
        partitions_by_topic(["b", text], "--topic")
