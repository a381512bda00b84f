"""Arguments of EmbeddedBroker in every form that people write, and wrong ones."""

import contextlib
import inspect
from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from pipeline_broker import EmbeddedBroker, EmbeddedBrokerError, ErrorCode, FaultError, WaitTimeoutError
from pipeline_broker.embedded.arguments import checked_seconds, setting_texts, timestamp_ms
from pipeline_broker.faults import effects

FIRST = datetime(1, 1, 1)  # noqa: DTZ001 - without a zone, as people write it
WRONG = [
    *(None, True, -1, 2**80, 1.5, float("nan"), float("inf"), "", "x", "3", "-3s", b"x", [], ["a"], (), {}, {"a": 1}),
    *({5: 5}, {("t", 0): "x"}, set(), object(), object, ..., timedelta(-1), FIRST, date(2026, 11, 30)),
]
"""Values that are wrong for most arguments."""


@pytest.fixture(scope="module")
def broker():
    with EmbeddedBroker() as broker:
        broker.produce("t", "value")
        yield broker


def error_of(attempt):
    """Return the error of ours that a call raises, or an empty text."""
    try:
        attempt()
    except (EmbeddedBrokerError, FaultError) as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    "value", [3, 3.0, "3s", "3000ms", " 3 s ", "3 seconds", "0.05min", "PT3S", timedelta(seconds=3)]
)
def test_a_duration_is_a_number_of_seconds_a_text_with_a_unit_or_a_timedelta(value):
    assert checked_seconds("advance", value) == 3


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2min", 120), ("2m", 120), ("1h", 3600), ("8d", 691_200), ("1 day", 86_400), ("250us", 0.00025)],
)
def test_a_duration_has_units_from_microseconds_to_days(text, seconds):
    assert checked_seconds("advance", text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value", ["3", "x", "", "-3s", True, -1, float("nan"), float("inf"), None, timedelta(-1), 1e300]
)
def test_another_duration_is_an_error_with_the_possible_forms(value):
    with pytest.raises(
        EmbeddedBrokerError,
        match=r"^advance needs a time of at least 0 .* '3s' with the unit us, ms, s, m, h or d, not ",
    ):
        checked_seconds("advance", value)


def test_a_time_is_a_datetime_or_milliseconds():
    noon = datetime(2026, 11, 30, 12, 0, 0, 123_000, UTC)
    assert timestamp_ms("produce", noon) == timestamp_ms("produce", 1_796_040_000_123)
    elsewhere = noon.astimezone(timezone(timedelta(hours=5)))
    assert timestamp_ms("produce", elsewhere) == timestamp_ms("produce", noon)
    without_zone = noon.astimezone().replace(tzinfo=None)
    assert timestamp_ms("produce", without_zone) == timestamp_ms("produce", noon)


@pytest.mark.parametrize("value", [1.5, "2026-11-30", None, True, date(2026, 11, 30), FIRST, 2**63])
def test_another_time_is_an_error(value):
    with pytest.raises(EmbeddedBrokerError, match=r"^produce needs a datetime or milliseconds since 1970 as"):
        timestamp_ms("produce", value)


def test_a_setting_takes_a_timedelta_in_its_unit_and_a_list():
    hours = {f"log.retention.{unit}": timedelta(hours=2) for unit in ("ms", "minutes", "hours")}
    assert setting_texts("settings", hours) == {
        "log.retention.ms": "7200000",
        "log.retention.minutes": "120",
        "log.retention.hours": "2",
    }
    assert setting_texts("settings", {"cleanup.policy": ["compact", "delete"], "preallocate": False}) == {
        "cleanup.policy": "compact,delete",
        "preallocate": "false",
    }


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"num.partitions": timedelta(1)}, "settings: num.partitions is not a time"),
        ({"num.partitions": None}, "settings: num.partitions needs a text, a number, a bool or a timedelta, not None"),
        ({5: 5}, "settings: a name needs a text, not 5"),
        ("num.partitions=3", "settings needs a mapping of names to values, not 'num.partitions=3'"),
    ],
)
def test_another_setting_is_an_error(settings, error):
    with pytest.raises(EmbeddedBrokerError) as caught:
        setting_texts("settings", settings)
    assert str(caught.value).startswith(error)


def test_people_write_times_everywhere(broker):
    year = datetime(2020, 1, 1, tzinfo=UTC)
    assert broker.produce("times", "x", timestamp=year).timestamp == 1_577_836_800_000
    broker.create_topic("short", configs={"retention.ms": timedelta(days=1), "cleanup.policy": ["compact", "delete"]})
    with pytest.raises(WaitTimeoutError, match=r"after 0\.02 s"):
        broker.wait_records("none", timeout="20ms")
    with pytest.raises(WaitTimeoutError, match=r"after 0\.02 s"):
        broker.wait_assigned("none", timeout=timedelta(milliseconds=20))
    broker.advance("1h")
    broker.advance(timedelta(hours=1))
    assert broker.clock_ahead_seconds == pytest.approx(7200)


@pytest.mark.parametrize("code", ["NOT_LEADER_OR_FOLLOWER", "not_leader_or_follower", 6, "6", ErrorCode(6)])
def test_people_write_errors_by_name_or_number(broker, code):
    rule = broker.faults.when("Produce").error(code)
    assert rule.effect == effects.Error("NOT_LEADER_OR_FOLLOWER")
    broker.faults.remove(rule)
    assert broker.faults.rules == []


ARGUMENTS = {
    "create_topic": {"name": "n"},
    "delete_topic": {"name": "n"},
    "produce": {"topic": "t", "value": "value"},
    "records": {"topic": "t"},
    "wait_records": {"topic": "t", "timeout": 0},
    "wait_fetching": {"topic": "t", "timeout": 0},
    "assert_records": {"topic": "t", "expected": [], "timeout": 0},
    "wait_assigned": {"group": "g", "timeout": 0},
    "wait_committed": {"group": "g", "timeout": 0},
    "expire_member": {"group": "g"},
    "offsets": {"group": "g"},
    "lag": {"group": "g"},
    "advance": {"seconds": 0},
    "restore": {"snapshot": None},
    "requests": {},
    "on_loop": {"function": len},
}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda broker: broker.records("t", partition="0"), "records: partition needs a whole number"),
        (lambda broker: broker.wait_records("t", partition="0"), "wait_records: partition needs a whole number"),
        (lambda broker: broker.wait_records("t", partition=-1), "wait_records: partition needs a whole number from 0"),
        (lambda broker: broker.wait_records("t", -1), "wait_records: count needs a whole number from 0"),
        (
            lambda broker: broker.create_topic("t", replication_factor=0),
            "create_topic: replication_factor needs a whole number from 1 to 32767, not 0",
        ),
        (lambda broker: broker.wait_assigned("g", members=0), "wait_assigned: members needs a whole number from 1"),
        (lambda broker: broker.wait_committed("g", {}), "wait_committed: offsets need offsets by (topic, partition)"),
        (lambda broker: broker.wait_committed("g", {("t", 0): -1}), "wait_committed: offsets need offsets by"),
        (lambda broker: broker.wait_committed("g", {("t", -1): 1}), "wait_committed: offsets need offsets by"),
        (lambda broker: broker.offsets(5), "offsets: group needs a text, not 5"),
        (lambda broker: broker.lag(None), "lag: group needs a text, not None"),
    ],
)
def test_a_wrong_argument_is_no_empty_answer(broker, call, error):
    with pytest.raises(EmbeddedBrokerError) as caught:
        call(broker)
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_wrong_argument_is_an_error_of_ours(broker, name):
    method = getattr(broker, name)
    for argument in inspect.signature(method).parameters:
        for value in WRONG:
            if name == "on_loop" and callable(value):
                continue
            with contextlib.suppress(EmbeddedBrokerError, FaultError, AssertionError):
                method(**{**ARGUMENTS[name], argument: value})


@pytest.mark.parametrize(
    ("begin", "subject", "keys"),
    [
        ("when", "Produce", "topic partition client_id group nth every p times seed"),
        ("disk_when", "sync", "path nth"),
        ("when_store", "put", "name nth"),
    ],
)
def test_a_wrong_part_of_a_fault_rule_is_one_line_of_ours(broker, begin, subject, keys):
    when = getattr(broker.faults, begin)
    attempts = [lambda value=value: when(value) for value in WRONG]
    attempts += [lambda key=key, value=value: when(subject, **{key: value}) for key in keys.split() for value in WRONG]
    effects_of = [name for name, _ in inspect.getmembers(when(subject), inspect.ismethod) if name[0] != "_"]
    for effect in effects_of:
        method = getattr(when(subject), effect)
        if inspect.signature(method).parameters:
            attempts += [lambda method=method, value=value: method(value) for value in WRONG]
    assert [text for attempt in attempts if "\n" in (text := error_of(attempt))] == []
    broker.faults.clear()


@pytest.mark.parametrize("argument", ["mode", "settings", "data", "flush", "requests_max"])
def test_a_wrong_argument_of_the_broker_is_one_line_of_ours(argument):
    attempts = [lambda value=value: EmbeddedBroker(**{argument: value}) for value in WRONG]
    assert [text for attempt in attempts if "\n" in (text := error_of(attempt))] == []


def test_an_unknown_argument_names_the_class_of_the_caller():
    with pytest.raises(TypeError, match=r"^EmbeddedBroker\.__init__\(\) got an unexpected keyword argument 'setings'"):
        EmbeddedBroker(setings={})
