"""Scrapes of several brokers as one text."""

from prometheus_client.parser import text_string_to_metric_families

from pipeline_broker.telemetry.merged_metrics import merge_metrics

ONE = """# HELP a Counts.
# TYPE a counter
a{x="1"} 1
a 2
# HELP b Sizes.
# TYPE b gauge
b{} 3
"""
TWO = """# HELP b Sizes.
# TYPE b gauge
b 4
# HELP c Other
# TYPE c gauge
c{y="a } b",z="\\"q\\""} 5e-3
"""


def merged(texts):
    steps = merge_metrics(texts)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value.decode()


def test_each_family_has_the_samples_of_all_brokers_with_their_labels():
    text = merged({2: TWO, 1: ONE})
    assert text.splitlines() == [
        "# HELP a Counts.",
        "# TYPE a counter",
        'a{broker="1",x="1"} 1',
        'a{broker="1"} 2',
        "# HELP b Sizes.",
        "# TYPE b gauge",
        'b{broker="1"} 3',
        'b{broker="2"} 4',
        "# HELP c Other",
        "# TYPE c gauge",
        'c{broker="2",y="a } b",z="\\"q\\""} 5e-3',
    ]
    families = {each.name: each for each in text_string_to_metric_families(text)}
    assert families["c"].samples[0].labels == {"broker": "2", "y": "a } b", "z": '"q"'}


def test_a_broker_that_did_not_answer_is_missing_and_none_gives_an_empty_text():
    assert 'broker="1"' in merged({1: ONE})
    assert merged({}) == ""


def test_a_long_text_takes_steps():
    text = "# TYPE a counter\n" + "".join(f'a{{n="{number}"}} 1\n' for number in range(2_000))
    assert len(list(merge_metrics({1: text, 2: text}))) > 3
