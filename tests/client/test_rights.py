"""A refused request is described with the right that it needs."""

import contextvars

import pytest

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.client.errors import check
from pipeline_broker.client.rights import OPERATIONS, RESOURCES, missing_right, note_answered, note_needed
from pipeline_broker.wire.messages.data.fetch import FetchRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest
from tests.apis.authorized_requests import CASES
from tests.apis.authorized_transactions import TRANSACTION_CASES

TOPIC_REFUSED, GROUP_REFUSED = 29, 30
GENERAL = "The client lacks a right on the topic; `acls add` grants it."


def needed():
    """The operations whose lack has an error, by resource and API."""
    found = {}
    for parameters in TRANSACTION_CASES + CASES:
        _, code, rules, message = parameters.values
        of_resource = {it.operation.name for it in rules if it.resource_type.name == name_of(code)}
        found.setdefault((RESOURCES[code], SERVED[message.SCHEMA.key].name), set()).update(of_resource)
    return found


def name_of(code):
    return RESOURCES[code].upper().replace(" ", "_")


def test_the_named_operations_are_those_that_the_broker_requires():
    known = needed()
    for resource, apis in OPERATIONS.items():
        for api, operation in apis.items():
            assert operation.upper().replace("-", "_") in known[resource, api], (resource, api)


def test_the_right_is_that_of_the_latest_answer_in_the_task():
    contextvars.Context().run(_check_rights)


def _check_rights():
    assert missing_right(TOPIC_REFUSED) == GENERAL
    note_answered(FetchRequest(topics=[]))
    assert missing_right(TOPIC_REFUSED) == (
        "The client lacks the right to read on the topic; `acls add --operation read` grants it."
    )
    assert missing_right(GROUP_REFUSED) == "The client lacks a right on the group; `acls add` grants it."
    assert missing_right(3) == ""
    with pytest.raises(Exception, match=r"^topic t: The client lacks the right to read on the topic; "):
        check(TOPIC_REFUSED, "topic t", "Topic authorization failed.")
    note_answered(MetadataRequest(None, allow_auto_topic_creation=True))
    assert missing_right(TOPIC_REFUSED) == GENERAL, "it may be the right to describe, or to create"
    note_answered(MetadataRequest(None, allow_auto_topic_creation=False))
    assert "the right to describe on the topic" in missing_right(TOPIC_REFUSED)


def test_a_command_names_the_right_that_all_its_requests_need():
    contextvars.Context().run(_check_needed_rights)


def _check_needed_rights():
    note_needed("read", "group", "topic")
    for request in (MetadataRequest(None, allow_auto_topic_creation=False), FetchRequest(topics=[])):
        note_answered(request)
        assert missing_right(TOPIC_REFUSED) == (
            "The client needs the right to read on the group and on the topic; `acls add --operation read` grants it,"
            " which includes describe."
        )
    note_answered(MetadataRequest(None, allow_auto_topic_creation=True))
    assert missing_right(TOPIC_REFUSED) == GENERAL
    note_needed("write", "topic")
    note_answered(MetadataRequest(None, allow_auto_topic_creation=True))
    assert missing_right(TOPIC_REFUSED).startswith("The client needs the right to write on the topic; ")
    assert missing_right(TOPIC_REFUSED).endswith(" A new topic also needs create.")
    note_answered(FetchRequest(topics=[]))
    assert "the right to read on the topic;" in missing_right(TOPIC_REFUSED), "another right than the noted one"
