"""Every history of a small cluster is correct, and leaving out any rule is found in them.

With EXAMPLES in the environment (`make properties`) larger clusters are explored too.
"""

import os

import attrs
import pytest

from tests.state.leadership.moves_mistakes import (
    AppendsBeforeItOpens,
    AppendsWhileItStops,
    ReadsAfterHandOver,
    ResumesAfterHandOver,
    ServesBeforeItJoins,
    TakesDrainOfAnyEpoch,
    TakesDrainOfAnyGeneration,
    TakesHandOverOfAnyEpoch,
    TakesHandOverOfAnyGeneration,
    all_entries,
)
from tests.state.leadership.moves_model import Left, Model

ORDINARY = {
    "restarts and a move": Left(writes=2, wishes=1, restarts=1, drains=0),
    "a restart and a drain": Left(writes=2, wishes=0, restarts=1, drains=1),
    "two moves": Left(writes=2, wishes=3, restarts=0, drains=0),
}
AT_LENGTH = {
    "all at once": Left(writes=2, wishes=1, restarts=1, drains=1),
    "moves and restarts": Left(writes=2, wishes=2, restarts=2, drains=0),
}
BOUNDS = ORDINARY | AT_LENGTH if "EXAMPLES" in os.environ else ORDINARY

MISTAKES = {
    "C1 serves before it joins": (Model(member=ServesBeforeItJoins), Left(1, 1, 1, 0)),
    "C2 appends before it opens": (Model(partition=AppendsBeforeItOpens), Left(1, 0, 0, 0)),
    "C2 appends while it stops": (Model(partition=AppendsWhileItStops), Left(2, 1, 0, 0)),
    "C3 resumes after a hand-over": (Model(partition=ResumesAfterHandOver), Left(2, 2, 0, 0)),
    "C3 reads after a hand-over": (Model(partition=ReadsAfterHandOver), Left(1, 1, 0, 0)),
    "C4 takes a hand-over of any generation": (
        Model(controller=TakesHandOverOfAnyGeneration()),
        Left(writes=1, wishes=1, restarts=1, drains=0),
    ),
    "C4 takes a hand-over of any epoch": (Model(controller=TakesHandOverOfAnyEpoch()), Left(2, 3, 0, 0)),
    "C5 reads before it fences": (Model(reads_before_fence=True), Left(1, 0, 0, 1)),
    "C5 takes a drain of any generation": (Model(controller=TakesDrainOfAnyGeneration()), Left(1, 0, 1, 1)),
    "C5 takes a drain of any epoch": (Model(controller=TakesDrainOfAnyEpoch()), Left(2, 2, 1, 1)),
    "C6 counts entries of any epoch": (Model(counts=all_entries), Left(1, 2, 0, 0)),
}


@pytest.mark.parametrize("left", BOUNDS.values(), ids=BOUNDS)
def test_in_every_history_each_acknowledged_record_is_there_once(left):
    assert Model(left=left).explore() > 100


@pytest.mark.parametrize(("model", "left"), MISTAKES.values(), ids=MISTAKES)
def test_a_rule_that_is_left_out_is_found(model, left):
    with pytest.raises(AssertionError, match=r"is acknowledged|can acknowledge"):
        attrs.evolve(model, left=left).explore()
