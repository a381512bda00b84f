"""Commands about fault rules carry out untrusted arguments, or refuse them with one line."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline_broker.commands import faults as faults_command
from pipeline_broker.faults.commands import ACTIONS, carry_out
from pipeline_broker.faults.faults import Faults
from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule_text import KEYS
from pipeline_broker.node import operator_commands

RULE = ["api=Produce", "topic=t", "nth=2", "error=NOT_LEADER_OR_FOLLOWER"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
NINES = "9" * 5_000
VALUES = st.text(max_size=8) | st.sampled_from(
    [
        "--5",
        "9" * 5_000,
        "-1",
        "nan",
        "inf",
        "1e400",
        "1e400s",
        "9" * 400 + "s",
        "Produce",
        "sync",
        "true",
        "after",
        "*",
    ]
)
TEXTS = st.builds("{}={}".format, st.sampled_from(KEYS), VALUES)
NAMES = st.sampled_from(["arguments", "number", "group", "member", "when"])


class Groups:
    """A group `g` with a member `m`, and the calls to it."""

    def __init__(self):
        self.done = []

    def expire_member(self, group_id, member_id, now_ms):
        self.done.append(("expire", group_id, member_id))
        return group_id == "g" and member_id in {None, "m"}

    def force_rebalance(self, group_id, now_ms):
        self.done.append(("rebalance", group_id))
        return group_id == "g"


class Broker:
    """A broker with rules that are created on first access."""

    def __init__(self):
        self.groups = Groups()
        self.has_faults = False
        self._faults = Faults(self.groups, lambda: 0, lambda: None)

    @property
    def faults(self):
        self.has_faults = True
        return self._faults


def do(broker, action, **arguments):
    return carry_out(broker, action, arguments, "command line")


def test_all_interfaces_have_the_same_actions():
    assert set(operator_commands.FAULT_ACTIONS) == set(faults_command.ACTIONS) == set(ACTIONS)


def test_a_rule_is_made_listed_released_and_removed():
    broker = Broker()
    assert (do(broker, "list"), do(broker, "clear"), broker.has_faults) == ({"rules": []}, {"removed": 0}, False)
    made = do(broker, "add", arguments=RULE)
    assert made == {
        "number": 1,
        "rule": "Produce topic=t nth=2: error NOT_LEADER_OR_FOLLOWER",
        "matched": 0,
        "hits": 0,
        "holds": 0,
        "deterministic": True,
        "origin": "command line",
    }
    assert do(broker, "list") == {"rules": [made]}
    assert do(broker, "release", number=1) == {"released": False}
    assert do(broker, "remove", number=1) == {}
    do(broker, "add", arguments=RULE)
    assert do(broker, "clear") == {"removed": 1}


def test_faults_of_groups():
    broker = Broker()
    do(broker, "expire", group="g")
    do(broker, "expire", group="g", member="m")
    do(broker, "rebalance", group="g")
    assert broker.groups.done == [("expire", "g", None), ("expire", "g", "m"), ("rebalance", "g")]


@pytest.mark.parametrize(
    ("action", "arguments", "line"),
    [
        ("add", {"arguments": ["api=Prduce", "drop"]}, "unknown API 'Prduce'; did you mean Produce?"),
        ("add", {}, "arguments must be a list of NAME=VALUE texts"),
        ("add", {"arguments": [1]}, "arguments must be a list of NAME=VALUE texts"),
        ("add", {"arguments": RULE, "number": 1}, "add has no argument 'number'"),
        ("remove", {"number": 1}, "fault rule 1 does not exist; existing rules: none"),
        ("remove", {"number": True}, "give the number of one rule; `faults list` shows the numbers"),
        ("release", {"number": "1"}, "give the number of one rule; `faults list` shows the numbers"),
        ("expire", {"group": "g", "member": 1}, "give a group, or a group and one of its members"),
        ("expire", {"group": "g", "member": "x"}, "the group 'g' has no member 'x'"),
        ("rebalance", {}, "give one group"),
        ("rebalance", {"group": "x"}, "the group 'x' does not exist or has no members"),
    ],
)
def test_an_invalid_command_is_one_line(action, arguments, line):
    with pytest.raises(FaultError) as raised:
        do(Broker(), action, **arguments)
    assert str(raised.value) == line


def refusal(action, arguments):
    """Return the line of a refusal, or None on success. Any other exception would end the broker."""
    try:
        carry_out(Broker(), action, arguments, "dashboard")
    except FaultError as error:
        return str(error)
    return None


@given(st.sampled_from(sorted(ACTIONS)), st.dictionaries(NAMES, JSON, max_size=2))
def test_any_arguments_are_carried_out_or_refused(action, arguments):
    line = refusal(action, arguments)
    assert line is None or line.isprintable()


@example(texts=["nth=--5"], is_whole=True)
@example(texts=[f"times={NINES}"], is_whole=True)
@example(texts=["api=Produce", f"throttle={NINES}s"], is_whole=False)
@example(texts=["a\nb=1", "a\nb=2"], is_whole=False)
@given(
    texts=st.lists(st.builds("{}={}".format, st.sampled_from([*KEYS, "x\n"]), VALUES), max_size=4),
    is_whole=st.booleans(),
)
def test_any_text_is_a_rule_or_one_line(texts, is_whole):
    """Refusals are printable. Half of the rules are complete except for their values."""
    line = refusal("add", {"arguments": ["api=Produce", "drop", *texts] if is_whole else texts})
    assert line is None or line.isprintable()
