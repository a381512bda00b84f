"""Reconciliation of tasks: each step by state, reported tasks, tasks of other members and changes of roles."""

from __future__ import annotations

import pytest

from pipeline_broker.state.groups.modern.layouts import UNKNOWN_EPOCH
from pipeline_broker.state.groups.modern.member import CurrentAssignment, MemberState
from pipeline_broker.state.groups.streams.reconciliation import TaskReconciliation
from pipeline_broker.state.groups.streams.roles import Role, TaskKey

STABLE, UNREVOKED, UNRELEASED, _ = MemberState
ACTIVE, STANDBY, WARMUP = (TaskKey(role, "0") for role in Role)
OLD, NEW = 5, 7  # epochs of the member and of its target


def at(state, assigned, revoking=(), epoch=OLD):
    """Return tasks by role, all assigned in epoch 2."""
    return CurrentAssignment(
        member_epoch=epoch,
        previous_epoch=3,
        state=state,
        assigned={key: dict.fromkeys(tasks, 2) for key, tasks in dict(assigned).items()},
        revoking={key: dict.fromkeys(tasks, 2) for key, tasks in dict(revoking).items()},
    )


def step(current, target, *, owned=None, taken=()):
    return TaskReconciliation(
        current=current,
        target_epoch=NEW,
        target={key: frozenset(tasks) for key, tasks in target.items()},
        owned=None if owned is None else {key: frozenset(tasks) for key, tasks in owned.items()},
        is_taken=lambda key, task: (key, task) in taken,
    ).next()


def shown(found):
    assigned, revoking = (
        {key: sorted(tasks) for key, tasks in owned.items()} for owned in (found.assigned, found.revoking)
    )
    return found.member_epoch, found.state, assigned, revoking


ROWS = {
    "gets free tasks of each role": (
        at(STABLE, {}),
        {ACTIVE: [0], STANDBY: [1], WARMUP: [2]},
        {},
        (NEW, STABLE, {ACTIVE: [0], STANDBY: [1], WARMUP: [2]}, {}),
    ),
    "waits for tasks of others": (
        at(STABLE, {ACTIVE: [0]}),
        {ACTIVE: [0, 1]},
        {"taken": {(ACTIVE, 1)}},
        (NEW, UNRELEASED, {ACTIVE: [0]}, {}),
    ),
    "revokes first": (
        at(STABLE, {ACTIVE: [0, 1]}),
        {ACTIVE: [0, 2]},
        {"owned": {ACTIVE: [0, 1]}},
        (OLD, UNREVOKED, {ACTIVE: [0]}, {ACTIVE: [1]}),
    ),
    "still revokes": (
        at(UNREVOKED, {ACTIVE: [0]}, {ACTIVE: [1]}),
        {ACTIVE: [0, 2]},
        {"owned": {ACTIVE: [0, 1]}},
        (OLD, UNREVOKED, {ACTIVE: [0]}, {ACTIVE: [1]}),
    ),
    "a report without tasks confirms nothing": (
        at(UNREVOKED, {ACTIVE: [0]}, {ACTIVE: [1]}),
        {ACTIVE: [0, 2]},
        {},
        (OLD, UNREVOKED, {ACTIVE: [0]}, {ACTIVE: [1]}),
    ),
    "has revoked": (
        at(UNREVOKED, {ACTIVE: [0]}, {ACTIVE: [1]}),
        {ACTIVE: [0, 2]},
        {"owned": {ACTIVE: [0]}},
        (NEW, STABLE, {ACTIVE: [0, 2]}, {}),
    ),
    "an active task becomes a standby, and its active role is revoked": (
        at(STABLE, {ACTIVE: [0]}),
        {STANDBY: [0]},
        {"owned": {ACTIVE: [0]}},
        (OLD, UNREVOKED, {STANDBY: [0]}, {ACTIVE: [0]}),
    ),
    "a standby becomes a warm-up without revocation": (
        at(STABLE, {STANDBY: [0]}),
        {WARMUP: [0]},
        {"owned": {STANDBY: [0]}},
        (NEW, STABLE, {WARMUP: [0]}, {}),
    ),
    "a warm-up becomes a standby without revocation": (
        at(STABLE, {WARMUP: [0]}),
        {STANDBY: [0]},
        {"owned": {WARMUP: [0]}},
        (NEW, STABLE, {STANDBY: [0]}, {}),
    ),
    "a standby becomes active when the task is free": (
        at(STABLE, {STANDBY: [0]}),
        {ACTIVE: [0]},
        {"owned": {STANDBY: [0]}},
        (NEW, STABLE, {ACTIVE: [0]}, {}),
    ),
    "a standby stays one until the active task is free": (
        at(STABLE, {STANDBY: [0]}),
        {ACTIVE: [0]},
        {"owned": {STANDBY: [0]}, "taken": {(ACTIVE, 0)}},
        (NEW, UNRELEASED, {STANDBY: [0]}, {}),
    ),
}


@pytest.mark.parametrize(("current", "target", "more", "expected"), ROWS.values(), ids=ROWS)
def test_a_step_of_reconciliation(current, target, more, expected):
    assert shown(step(current, target, **more)) == expected


def test_only_active_tasks_have_the_epochs_of_their_assignment():
    found = step(at(STABLE, {ACTIVE: [0], STANDBY: [1]}), {ACTIVE: [0, 2], STANDBY: [1, 3]})
    assert found.assigned == {ACTIVE: {0: 2, 2: NEW}, STANDBY: {1: UNKNOWN_EPOCH, 3: UNKNOWN_EPOCH}}


def test_a_confirmed_revocation_moves_the_epoch_even_if_more_must_be_revoked():
    current = at(UNREVOKED, {ACTIVE: [0, 2]}, {ACTIVE: [1]})
    found = step(current, {ACTIVE: [0]}, owned={ACTIVE: [0, 2]})
    assert shown(found) == (OLD + 1, UNREVOKED, {ACTIVE: [0]}, {ACTIVE: [2]})
