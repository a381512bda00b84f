"""AlterClientQuotas and DescribeClientQuotas; tests/differential compares the expected values with Apache Kafka."""

import pytest

from pipeline_broker.apis.steps import ELEMENT_COST
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.codec import versions_of
from pipeline_broker.wire.messages.configs.alter_client_quotas import AlterClientQuotasRequest
from pipeline_broker.wire.messages.configs.describe_client_quotas import DescribeClientQuotasRequest
from stages.request import TURN_COST, Unfinished
from tests.apis.configs.quota_requests import alter, alteration, described
from tests.apis.desk import Desk

ANN = [("user", "ann")]
EACH_APP = [("user", "ann"), ("client-id", None)]


@pytest.mark.parametrize("version", versions_of(AlterClientQuotasRequest))
def test_quotas_are_set_shown_changed_and_removed(version):
    desk = Desk()
    assert alter(desk, ANN, ("producer_byte_rate", 1024.0), ("request_percentage", 12.5), version=version) == 0
    assert described(desk, version=version) == [(ANN, {"producer_byte_rate": 1024.0, "request_percentage": 12.5})]
    assert alter(desk, ANN, ("producer_byte_rate", 2048.0), ("request_percentage", None), version=version) == 0
    assert described(desk, version=version) == [(ANN, {"producer_byte_rate": 2048.0})]
    assert alter(desk, ANN, ("producer_byte_rate", None), version=version) == 0
    assert described(desk, version=version) == []


def test_quotas_survive_a_restart():
    desk = Desk()
    alter(desk, ANN, ("producer_byte_rate", 1024.0))
    alter(desk, EACH_APP, ("consumer_byte_rate", 1.0))
    alter(desk, EACH_APP, ("consumer_byte_rate", None))
    again = desk.restart()
    assert described(again) == [(ANN, {"producer_byte_rate": 1024.0})]
    assert again.broker.quotas.is_active


def test_a_change_builds_on_an_undurable_one():
    desk = Desk()
    names = ("consumer_byte_rate", "producer_byte_rate")
    alter(desk, ANN, ("request_percentage", 1.0))
    requests = [AlterClientQuotasRequest(entries=[alteration(ANN, (name, 1.0))]) for name in names]
    decided = [desk.decide(request, 1) for request in requests]
    for request, result in zip(requests, decided, strict=True):
        desk.finish(request, 1, result)
    assert described(desk) == [(ANN, dict.fromkeys((*names, "request_percentage"), 1.0))]


def test_validate_only_answers_and_changes_nothing():
    desk = Desk()
    assert alter(desk, ANN, ("producer_byte_rate", 1024.0), validate_only=True) == 0
    assert alter(desk, ANN, ("producer_byte_rate", -1.0), validate_only=True) == ErrorCode.INVALID_REQUEST
    assert described(desk) == []


def test_an_invalid_entity_does_not_affect_the_others():
    desk = Desk()
    request = AlterClientQuotasRequest(
        entries=[
            alteration(ANN, ("producer_byte_rate", 1024.0), ("nothing", 1.0)),
            alteration(EACH_APP, ("producer_byte_rate", 512.0)),
        ]
    )
    codes = [entry.error_code for entry in desk.ask(request, 1).entries]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE]
    assert described(desk) == [(sorted(EACH_APP), {"producer_byte_rate": 512.0})]


def test_an_entity_that_is_named_again_is_answered_with_an_error_and_changed_once():
    desk = Desk()
    entries = [alteration(ANN, ("producer_byte_rate", rate)) for rate in (1024.0, 2048.0)]
    (entry,) = desk.ask(AlterClientQuotasRequest(entries=entries), 1).entries
    assert entry.error_code == ErrorCode.INVALID_REQUEST
    assert described(desk) == [(ANN, {"producer_byte_rate": 1024.0})]


def test_an_invalid_filter_is_answered_without_entries():
    component = DescribeClientQuotasRequest.ComponentData("group", 2, None)
    answer = Desk().ask(DescribeClientQuotasRequest(components=[component]), 1)
    assert (answer.error_code, answer.entries) == (ErrorCode.UNSUPPORTED_VERSION, None)


def test_connection_rates_are_passed_to_the_acceptor():
    """On a change, and at once after a restart; other requests do not become slower."""
    desk, told = Desk(), []
    quotas = desk.broker.quotas
    desk.ip_rates_changed = lambda: told.append((dict(quotas.ip_rates), quotas.ip_rate_default))
    alter(desk, [("ip", "2001:DB8::1")], ("connection_creation_rate", 5.0))
    alter(desk, [("ip", None)], ("connection_creation_rate", 50.0))
    alter(desk, ANN, ("producer_byte_rate", 50.0))
    alter(desk, ANN, ("producer_byte_rate", None))
    alter(desk, [("ip", None)], ("connection_creation_rate", None))
    assert told == [({"2001:db8::1": 5.0}, None), ({"2001:db8::1": 5.0}, 50.0), ({"2001:db8::1": 5.0}, None)]
    assert not quotas.is_active
    assert desk.restart().broker.quotas.ip_rates == {"2001:db8::1": 5.0}


def test_a_request_with_many_entities_is_applied_once():
    """Each change rebuilds the index, so a rebuild per entity would block all other requests."""
    desk, told = Desk(), []
    desk.ip_rates_changed = lambda: told.append(len(desk.broker.quotas.ip_rates))
    entries = [alteration([("ip", f"192.0.2.{number}")], ("connection_creation_rate", 5.0)) for number in range(100)]
    assert len(desk.ask(AlterClientQuotasRequest(entries=entries), 1).entries) == 100
    assert told == [100]
    assert len(desk.restart().broker.quotas.ip_rates) == 100


def test_quotas_of_very_many_entities_are_shown_in_turns():
    desk = Desk()
    users = [f"u{number}" for number in range(TURN_COST // ELEMENT_COST + 1)]
    entries = [alteration([("user", user)], ("producer_byte_rate", 1.0)) for user in users]
    desk.ask(AlterClientQuotasRequest(entries=entries), 1)
    assert isinstance(desk.decide(DescribeClientQuotasRequest(), 1), Unfinished)
    assert described(desk) == [([("user", user)], {"producer_byte_rate": 1.0}) for user in users]
