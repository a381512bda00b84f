"""Names in rules are Kafka's in any case; an unknown one is one line with suggestions."""

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.faults import effects
from pipeline_broker.faults.effects import DiskError, Error, Pause
from pipeline_broker.faults.names import COORDINATORS, FaultError, api_keys, error_code, system_error
from pipeline_broker.wire.registry import API_KEYS, ApiKey


def test_every_api_is_found_by_its_name():
    for api in (api for api in API_KEYS.values() if api.versions):
        assert api_keys(api.name) == (api.name, {api.key})
        assert api_keys(api.name.upper()) == (api.name, {api.key})


def test_a_coordinator_stands_for_the_requests_of_its_clients():
    assert api_keys("groupcoordinator") == ("GroupCoordinator", COORDINATORS["GroupCoordinator"])
    assert ApiKey.HEARTBEAT in COORDINATORS["GroupCoordinator"]
    assert ApiKey.END_TXN in COORDINATORS["TransactionCoordinator"]


def test_every_error_is_found_by_its_name():
    for code in (code for code in ErrorCode if code is not ErrorCode.NONE):
        assert error_code(code.name.lower()) is code


@pytest.mark.parametrize(
    ("find", "name", "line"),
    [
        (api_keys, "Prduce", "unknown API 'Prduce'; did you mean Produce"),
        (error_code, "NOT_LEADER", "unknown error 'NOT_LEADER'; did you mean NOT_LEADER_OR_FOLLOWER"),
        (error_code, "NONE", "unknown error 'NONE'"),
        (error_code, "NOT_LEADR", "unknown error 'NOT_LEADR'; did you mean NOT_LEADER_OR_FOLLOWER"),
        (system_error, "EOI", "unknown system error 'EOI'; did you mean EIO"),
        (system_error, "EIOO", "unknown system error 'EIOO'; did you mean EIO"),
        (Pause, "sent", "unknown stage 'sent'; use one of commit, queue, response_order"),
        (lambda name: Error("UNKNOWN_SERVER_ERROR", name), "afterwards", "unknown moment 'afterwards'; did you"),
        (DiskError, "EVERYTHING", "unknown system error 'EVERYTHING'"),
    ],
)
def test_an_unknown_name_is_one_line_with_suggestions(find, name, line):
    with pytest.raises(FaultError) as raised:
        find(name)
    assert str(raised.value).startswith(line)
    assert "\n" not in str(raised.value)


def test_an_unknown_name_without_suggestion_lists_all():
    with pytest.raises(FaultError, match=r"use one of .*AddOffsetsToTxn.*WriteTxnMarkers"):
        api_keys("qqqq")


@pytest.mark.parametrize(
    "make",
    [
        lambda: effects.Delay(0),
        lambda: effects.Delay(3601),
        lambda: effects.Throttle(-1),
        lambda: effects.PartialWrite(0),
    ],
)
def test_a_number_out_of_range_is_one_line(make):
    with pytest.raises(FaultError, match="must be above 0 and at most"):
        make()
