"""Clients that ask and push one after the other: when they may, and what a mistake leads to, as in Apache Kafka."""

import os

import pytest

from pipeline_broker.wire.messages.cluster.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from pipeline_broker.wire.messages.cluster.push_telemetry import PushTelemetryRequest
from pipeline_broker.wire.registry import ApiKey
from tests.differential.comparison import compare
from tests.differential.data_requests import Ask

pytestmark = pytest.mark.xdist_group("kafka")
TOLD = "telemetry subscription"
TOO_LARGE = bytes(1_048_577)
RIGHT, WRONG = 0, 1
ASK = ("ask",)


def pushed(offset=RIGHT, *, terminating=False, codec=0, data=b"x"):
    return ("push", offset, terminating, codec, data)


STORIES = {
    "again too early": [ASK, ASK],
    "a push at once, and again too early": [ASK, pushed(), pushed()],
    "a push, then a question": [ASK, pushed(), ASK],
    "another subscription": [ASK, pushed(WRONG), ASK, ASK, pushed()],
    "an unknown codec": [ASK, pushed(codec=9), ASK, pushed()],
    "too large": [ASK, pushed(data=TOO_LARGE), pushed(), ASK],
    "what cannot be unpacked": [ASK, pushed(codec=1), ASK],
    "the end, early": [ASK, pushed(), pushed(terminating=True), pushed(), pushed(terminating=True), ASK],
    "the end of another subscription": [ASK, pushed(WRONG, terminating=True), pushed(terminating=True)],
    "nothing": [ASK, pushed(data=b""), pushed()],
    "unasked": [pushed(), ASK, pushed()],
}


def remember(side, answer):
    side.told[TOLD] = answer["subscription_id"]


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_client_is_answered_as_kafka_answers_it(sides, story):
    instance_id = os.urandom(16)
    for side in sides.all:
        side.told[TOLD] = 7
    found = []
    for what, *details in story:
        if what == "ask":
            asked = Ask(0, lambda _side: GetTelemetrySubscriptionsRequest(instance_id), text=repr(story))
            found += compare(sides, ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, asked, remember)
        else:
            offset, *rest = details
            step = Ask(
                0,
                lambda side, offset=offset, rest=rest: PushTelemetryRequest(
                    instance_id, side.told[TOLD] + offset, *rest
                ),
                text=f"{details[:3]} of {story}",
            )
            found += compare(sides, ApiKey.PUSH_TELEMETRY, step)
    assert not found, "\n".join(found)
