"""Commands about fault rules: what comes from outside is one call, or one line that says what is wrong with it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline_broker.commands import faults as faults_command
from pipeline_broker.faults.commands import ACTIONS, carry_out
from pipeline_broker.faults.faults import Faults
from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule_text import KEYS
from pipeline_broker.node import admin_socket

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
    """A group `g` with a member `m`, and what was done to it."""

    def __init__(self):
        self.done = []

    def expire_member(self, group_id, member_id, now_ms):
        self.done.append(("expire", group_id, member_id))
        return group_id == "g" and member_id in {None, "m"}

    def force_rebalance(self, group_id, now_ms):
        self.done.append(("rebalance", group_id))
        return group_id == "g"


class Broker:
    """Its rules, made when they are asked for first."""

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


def test_the_ways_that_lead_here_know_the_same_actions():
    assert set(admin_socket.FAULT_ACTIONS) == set(faults_command.ACTIONS) == set(ACTIONS)


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


def test_groups_are_disturbed():
    broker = Broker()
    do(broker, "expire", group="g")
    do(broker, "expire", group="g", member="m")
    do(broker, "rebalance", group="g")
    assert broker.groups.done == [("expire", "g", None), ("expire", "g", "m"), ("rebalance", "g")]


@pytest.mark.parametrize(
    ("action", "arguments", "line"),
    [
        ("add", {"arguments": ["api=Prduce", "drop"]}, "there is no API 'Prduce'; did you mean Produce?"),
        ("add", {}, "a rule is a list of NAME=VALUE texts"),
        ("add", {"arguments": [1]}, "a rule is a list of NAME=VALUE texts"),
        ("add", {"arguments": RULE, "number": 1}, "add takes no 'number'"),
        ("remove", {"number": 1}, "there is no fault rule 1; there are: none"),
        ("remove", {"number": True}, "give the number of one rule, as list shows it"),
        ("release", {"number": "1"}, "give the number of one rule, as list shows it"),
        ("expire", {"group": "g", "member": 1}, "give a group, and perhaps one of its members"),
        ("expire", {"group": "g", "member": "x"}, "there is no group 'g' with a member 'x'"),
        ("rebalance", {}, "give one group"),
        ("rebalance", {"group": "x"}, "there is no group 'x' with members"),
    ],
)
def test_what_cannot_be_done_is_one_line(action, arguments, line):
    with pytest.raises(FaultError) as raised:
        do(Broker(), action, **arguments)
    assert str(raised.value) == line


def refusal(action, arguments):
    """The line of a refusal; None where it was done. Whatever else is raised would end the broker."""
    try:
        carry_out(Broker(), action, arguments, "dashboard")
    except FaultError as error:
        return str(error)
    return None


@given(st.sampled_from(sorted(ACTIONS)), st.dictionaries(NAMES, JSON, max_size=2))
def test_whatever_comes_from_outside_is_done_or_refused(action, arguments):
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
def test_whatever_is_written_as_a_rule_is_one_or_one_line(texts, is_whole):
    """A refusal can be printed; rules that lack nothing but a good value are tried as often as any other."""
    line = refusal("add", {"arguments": ["api=Produce", "drop", *texts] if is_whole else texts})
    assert line is None or line.isprintable()
