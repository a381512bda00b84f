"""Apache Kafka and both modes of ours give the same answers, field by field, but for what masks names."""

import os

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pipeline_broker.apis.registry import SERVED
from tests.bad_input.raw_client import SERVED_IDS, SERVED_VERSIONS
from tests.differential.admin_requests import ADMIN_REQUESTS
from tests.differential.data_requests import DATA_REQUESTS
from tests.differential.masks import differences, masked

REQUESTS = DATA_REQUESTS | ADMIN_REQUESTS
EXAMPLES = int(os.environ.get("EXAMPLES", "3"))
"""Requests per API and version."""
ASKED_MIN = 300

# What the brokers hold grows from example to example: an example cannot be repeated, so it is not shrunk.
drawn = settings(
    max_examples=EXAMPLES,
    derandomize="EXAMPLES" not in os.environ,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def compare(sides, api, ask):
    """Ask all; returns what differs."""
    name = SERVED[api].name
    answers = [masked(side, name, side.ask(ask.build(side), ask.version)) for side in sides.all]
    sides.asked += 1
    sides.seen.add((api, ask.version))
    if ask.changes_topics:
        sides.settle()
    found = []
    for side, answer in zip(sides.ours, answers[1:], strict=True):
        found += [f"{name} {ask!r} ({side.name}) {text}" for text in differences(answers[0], answer)]
    return found


@pytest.mark.parametrize(("key", "version"), SERVED_VERSIONS, ids=SERVED_IDS)
@drawn
@given(data=st.data())
def test_a_request_is_answered_as_kafka_answers_it(sides, key, version, data):
    found = compare(sides, key, data.draw(REQUESTS[key](version)))
    assert not found, "\n".join(found)


def test_enough_was_asked(sides):
    """Every API in every version, and 300 requests at least."""
    assert sides.seen == set(SERVED_VERSIONS)
    assert sides.asked >= ASKED_MIN
