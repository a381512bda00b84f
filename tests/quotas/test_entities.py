"""Entities and keys of quotas, and Kafka's errors for invalid ones."""

import math

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.quotas.entities import QuotaError, altered, entity_of, normal_ip

USER_A = entity_of([("user", "a")])
IP = entity_of([("ip", "10.0.0.1")])


def test_quotas_are_set_and_removed():
    after = altered(USER_A, {"request_percentage": 20.0}, [("producer_byte_rate", 5.0), ("request_percentage", None)])
    assert after == {"producer_byte_rate": 5.0}


def test_removing_what_is_not_set_changes_nothing():
    """Not even for a name that is not a key."""
    assert altered(USER_A, {}, [("nothing", None)]) == {}


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [("user", "")],
        [("client-id", "")],
        [("group", "a")],
        [("ip", "10.0.0.1"), ("user", "a")],
        [("ip", "10.0.0.1"), ("client-id", None)],
        [("ip", "no address")],
        [("ip", "")],
    ],
)
def test_invalid_entities_are_rejected(parts):
    with pytest.raises(QuotaError) as caught:
        altered(entity_of(parts), {}, [])
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (USER_A, "producer_byte_rate", 0.0),
        (USER_A, "consumer_byte_rate", -1.0),
        (USER_A, "producer_byte_rate", 1.5),
        (USER_A, "producer_byte_rate", 1e30),
        (USER_A, "request_percentage", math.nan),
        (USER_A, "request_percentage", math.inf),
        (USER_A, "connection_creation_rate", 5.0),
        (USER_A, "bandwidth", 5.0),
        (IP, "producer_byte_rate", 5.0),
        (IP, "connection_creation_rate", 2.0**31),
        (IP, "connection_creation_rate", 0.5),
    ],
)
def test_invalid_quotas_are_rejected(entity, key, value):
    with pytest.raises(QuotaError) as caught:
        altered(entity, {}, [(key, value)])
    assert caught.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        (USER_A, "request_percentage", 0.5),
        (USER_A, "controller_mutation_rate", 2.5),
        (USER_A, "producer_byte_rate", 2.0**62),
        (entity_of([("user", None), ("client-id", "c")]), "consumer_byte_rate", 1024.0),
        (IP, "connection_creation_rate", 7.0),
        (entity_of([("ip", None)]), "connection_creation_rate", 7.0),
        (entity_of([("ip", "localhost")]), "connection_creation_rate", 7.0),
    ],
)
def test_valid_quotas_are_accepted(entity, key, value):
    assert altered(entity, {}, [(key, value)]) == {key: value}


def test_addresses_are_compared_as_connections_show_them():
    assert normal_ip("2001:DB8::0:1") == "2001:db8::1"
    assert normal_ip("localhost") == "127.0.0.1"
    assert normal_ip("broker.example.com") is None
