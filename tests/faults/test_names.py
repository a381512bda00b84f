"""Names are Kafka's, whatever their case, and one that there is not is one line with the nearest."""

import pytest

from pipeline_broker.faults import effects
from pipeline_broker.faults.effects import DiskError, Error, Pause
from pipeline_broker.faults.names import COORDINATORS, FaultError, api_keys, error_code, system_error
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.registry import API_KEYS, ApiKey


def test_every_api_is_found_by_its_name():
    for api in (api for api in API_KEYS.values() if api.versions):
        assert api_keys(api.name) == (api.name, {api.key})
        assert api_keys(api.name.upper()) == (api.name, {api.key})


def test_a_coordinator_stands_for_what_its_clients_ask_it():
    assert api_keys("groupcoordinator") == ("GroupCoordinator", COORDINATORS["GroupCoordinator"])
    assert ApiKey.HEARTBEAT in COORDINATORS["GroupCoordinator"]
    assert ApiKey.END_TXN in COORDINATORS["TransactionCoordinator"]


def test_every_error_is_found_by_its_name():
    for code in (code for code in ErrorCode if code is not ErrorCode.NONE):
        assert error_code(code.name.lower()) is code


@pytest.mark.parametrize(
    ("find", "name", "line"),
    [
        (api_keys, "Prduce", "there is no API 'Prduce'; did you mean Produce"),
        (error_code, "NOT_LEADER", "there is no error 'NOT_LEADER'; did you mean NOT_LEADER_OR_FOLLOWER"),
        (error_code, "NONE", "there is no error 'NONE'"),
        (system_error, "EIOO", "there is no error of the system 'EIOO'; did you mean EIO"),
        (Pause, "sent", "there is no stage 'sent'; there are commit, queue, response_order"),
        (lambda name: Error("UNKNOWN_SERVER_ERROR", name), "afterwards", "there is no moment 'afterwards'; did you"),
        (DiskError, "EVERYTHING", "there is no error of the system 'EVERYTHING'"),
    ],
)
def test_a_name_that_there_is_not_is_one_line_with_what_there_is(find, name, line):
    with pytest.raises(FaultError) as raised:
        find(name)
    assert str(raised.value).startswith(line)
    assert "\n" not in str(raised.value)


def test_a_name_that_is_near_to_none_lists_all():
    with pytest.raises(FaultError, match=r"there are .*AddOffsetsToTxn.*WriteTxnMarkers"):
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
