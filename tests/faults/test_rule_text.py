"""Parsing of rules, and the errors of invalid ones."""

import pytest

from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.faults import effects
from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule import Choice, DiskCondition, RequestCondition
from pipeline_broker.faults.rule_file import read_rules
from pipeline_broker.faults.rule_text import parse_arguments, parse_rule

PRODUCE = RequestCondition(api="Produce")
EFFECTS = {
    "error=NOT_LEADER_OR_FOLLOWER": effects.Error("NOT_LEADER_OR_FOLLOWER"),
    "delay=200ms": effects.Delay(0.2),
    "error=6": effects.Error("NOT_LEADER_OR_FOLLOWER"),
    "delay=1s": effects.Delay(1),
    "delay=2min": effects.Delay(120),
    "drop": effects.Drop(),
    "disconnect=before": effects.Disconnect("before"),
    "disconnect=after": effects.Disconnect("after"),
    "partial-write=7": effects.PartialWrite(7),
    "throttle=50": effects.Throttle(50),
    "pause=response_order": effects.Pause("response_order"),
}


@pytest.mark.parametrize("written", EFFECTS)
def test_each_effect_is_written_by_its_name(written):
    assert parse_arguments(["api=Produce", written]) == (PRODUCE, Choice(), EFFECTS[written])


def test_a_rule_has_a_condition_a_choice_and_an_effect():
    written = ["api=fetch", "topic=t", "partition=1", "client-id=c", "every=2", "times=3", "p=0.5", "seed=9"]
    condition = RequestCondition(api="Fetch", topic="t", partition=1, client_id="c")
    choice = Choice(every=2, times=3, p=0.5, seed=9)
    assert parse_arguments([*written, "corrupt_crc"]) == (condition, choice, effects.CorruptCrc())
    assert parse_arguments(["api=EndTxn", "error=NOT_COORDINATOR", "when=after"])[2] == effects.Error(
        "NOT_COORDINATOR", "after"
    )


@pytest.mark.parametrize(
    ("written", "effect"),
    [
        ("error=eio", effects.DiskError("EIO")),
        ("error=5", effects.DiskError("EIO")),
        ("delay=10ms", effects.Delay(0.01)),
        ("pause", effects.Pause("commit")),
        ("crash", effects.Crash()),
    ],
)
def test_a_rule_about_files_has_effects_of_its_own(written, effect):
    assert parse_arguments(["disk=sync", "path=*", written]) == (
        DiskCondition(disk="sync", path="*"),
        Choice(),
        effect,
    )


@pytest.mark.parametrize(
    ("written", "line"),
    [
        (["api=Produce"], "a rule needs exactly one effect of error, delay,"),
        (
            ["api=Produce", "error=999"],
            "unknown error 999; use a name such as NOT_LEADER_OR_FOLLOWER, or a number of Kafka",
        ),
        (["api=Produce", "error=0"], "unknown error 0; use a name"),
        (["api=Produce", "error"], "error needs a name or number of Kafka"),
        (["disk=sync", "error=99999"], "unknown system error '99999'"),
        (
            ["drop"],
            "a rule needs exactly one of api = a request's name, disk = sync or write, or store = put, get, ...",
        ),
        (["api=Produce", "disk=sync", "drop"], "a rule needs exactly one of api"),
        (["api=Produce", "drop", "delay=1s"], "a rule needs exactly one effect of"),
        (["api=Produce", "topik=t", "drop"], "unknown key 'topik'; did you mean topic"),
        (["api=Prduce", "drop"], "unknown API 'Prduce'; did you mean Produce"),
        (["api=Produce", "error=NOT_COORDINATR"], "unknown error 'NOT_COORDINATR'; did you mean NOT_COORDINATOR"),
        (["api=Produce", "delay=soon"], "needs a time such as 200ms or 1s, not 'soon'"),
        (["api=Produce", "partition=x", "drop"], "partition needs a whole number, not 'x'"),
        (["api=Produce", "nth=--5", "drop"], "nth needs a whole number, not '--5'"),
        (["api=Produce", "nth=" + "9" * 5_000, "drop"], "nth needs a whole number, not '999"),
        (["api=Produce", "throttle=" + "9" * 400 + "s"], "needs a time such as 200ms or 1s, not '999"),
        (["api=Produce", "p=often", "drop"], "p needs a number, not 'often'"),
        (["api=Produce", "drop=no"], "needs true, not 'no'"),
        (["api=Produce", "when=after", "drop"], "when does not apply to a rule about api with the effect drop"),
        (["disk=sync", "topic=t", "crash"], "topic does not apply to a rule about disk with the effect crash"),
        (["disk=sync", "drop"], "a rule needs exactly one effect of error, delay, pause, crash; this one has none"),
        (["disk=fsync", "crash"], "unknown operation 'fsync'; did you mean sync"),
        (["api=Produce", "api=Fetch", "drop"], "'api' is given twice"),
    ],
)
def test_an_invalid_rule_is_one_line(written, line):
    with pytest.raises(FaultError) as raised:
        parse_arguments(written)
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("value", [1, True, 1.5, [], {}])
def test_a_value_of_the_wrong_type_is_one_line(value):
    with pytest.raises(FaultError, match="needs a text"):
        parse_rule({"api": value, "drop": True})
    if value is not True:
        with pytest.raises(FaultError, match="needs true"):
            parse_rule({"api": "Produce", "drop": value})


def rules_of(tmp_path, text):
    path = tmp_path / "faults.toml"
    path.write_text(text, encoding="utf-8")
    return read_rules(path)


def test_a_file_has_a_table_for_each_rule(tmp_path):
    text = """# two rules
[[rule]]
api = "Produce"
topic = "orders"
nth = 2
error = "NOT_LEADER_OR_FOLLOWER"

[[rule]]
disk = "sync"
p = 0.5
seed = 1
delay = "20ms"
"""
    assert rules_of(tmp_path, text) == [
        (
            RequestCondition(api="Produce", topic="orders"),
            Choice(nth=2),
            effects.Error("NOT_LEADER_OR_FOLLOWER"),
        ),
        (DiskCondition(disk="sync"), Choice(p=0.5, seed=1), effects.Delay(0.02)),
    ]
    assert rules_of(tmp_path, "") == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            '[[rule]]\napi = "Fetch"\ndrop = true\n[[rule]]\n# a comment\napi = "Prduce"\ndrop = true\n',
            ":6: unknown API",
        ),
        ('\n[[rule]]\napi = "Produce"\nnth = "two"\ndrop = true\n', ":4: nth needs a whole number"),
        ('[[rule]]\napi = "Produce"\n', ":1: a rule needs exactly one effect"),
        ('[[rule]]\napi = "Produce"\ndelay = "soon"\n', ":3: delay needs a time"),
        ('[[rule]]\napi = "Produce"\ntopics = "t"\ndrop = true\n', ":3: unknown key 'topics'"),
        ('[[rule]]\napi = "Produce\n', ":2: "),
        ('[[rules]]\napi = "Produce"\n', ":1: unknown key 'rules'; use only [[rule]] tables"),
        ('name = "x"\n', ":1: unknown key 'name'"),
        ('rule = [{api = "Produce", drop = true}]\n', ": start each rule with a line [[rule]]"),
    ],
)
def test_an_error_in_a_file_names_its_line(tmp_path, text, line):
    with pytest.raises(UnavailableError) as raised:
        rules_of(tmp_path, text)
    assert str(raised.value).startswith(f"{tmp_path / 'faults.toml'}{line}")
    assert "\n" not in str(raised.value)


def test_an_unreadable_file_is_one_line(tmp_path):
    with pytest.raises(UnavailableError, match=r"cannot read .*none.toml: No such file"):
        read_rules(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(UnavailableError, match="it is not UTF-8 text"):
        read_rules(tmp_path / "bytes.toml")
