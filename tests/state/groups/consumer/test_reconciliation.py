"""Reconciliation: each step by state, reported partitions and partitions of other members."""

import pytest

from pipeline_broker.state.groups.consumer.reconciliation import Reconciliation
from pipeline_broker.state.groups.modern.member import CurrentAssignment, MemberState

A, B = b"a", b"b"
STABLE, UNREVOKED, UNRELEASED, _ = MemberState
OLD, NEW = 5, 7  # epochs of the member and of its target


def at(state, assigned, revoking=(), epoch=OLD, previous=3):
    """Return partitions by topic, all assigned in epoch 2."""
    return CurrentAssignment(
        member_epoch=epoch,
        previous_epoch=previous,
        state=state,
        assigned={topic: dict.fromkeys(partitions, 2) for topic, partitions in dict(assigned).items()},
        revoking={topic: dict.fromkeys(partitions, 2) for topic, partitions in dict(revoking).items()},
    )


def step(current, target, *, owned=None, taken=(), subscribed=(A, B), changed=False, epoch=NEW):
    return Reconciliation(
        current=current,
        target_epoch=epoch,
        target={topic: frozenset(partitions) for topic, partitions in target.items()},
        subscribed=frozenset(subscribed),
        subscription_changed=changed,
        owned=None if owned is None else {topic: frozenset(partitions) for topic, partitions in owned.items()},
        is_taken=lambda topic, partition: (topic, partition) in taken,
    ).next()


def shown(found):
    """Return epochs, state, assigned partitions with their epochs, and partitions to revoke."""
    assigned = {topic: dict(sorted(epochs.items())) for topic, epochs in found.assigned.items()}
    revoking = {topic: sorted(epochs) for topic, epochs in found.revoking.items()}
    return found.member_epoch, found.previous_epoch, found.state, assigned, revoking


ROWS = {
    "has its target": (at(STABLE, {A: [0]}, epoch=NEW), {A: [0, 1]}, {}, None),
    "gets free partitions": (at(STABLE, {}), {A: [0, 1]}, {}, (NEW, OLD, STABLE, {A: {0: NEW, 1: NEW}}, {})),
    "keeps assignment epochs": (
        at(STABLE, {A: [0]}),
        {A: [0, 1]},
        {},
        (NEW, OLD, STABLE, {A: {0: 2, 1: NEW}}, {}),
    ),
    "waits for partitions of others": (
        at(STABLE, {A: [0]}),
        {A: [0, 1], B: [0, 1]},
        {"taken": {(A, 1), (B, 0)}},
        (NEW, OLD, UNRELEASED, {A: {0: 2}, B: {1: NEW}}, {}),
    ),
    "still waits": (
        at(UNRELEASED, {A: [0]}, epoch=NEW),
        {A: [0, 1]},
        {"taken": {(A, 1)}},
        (NEW, NEW, UNRELEASED, {A: {0: 2}}, {}),
    ),
    "has stopped waiting": (
        at(UNRELEASED, {A: [0]}, epoch=NEW),
        {A: [0, 1]},
        {},
        (NEW, NEW, STABLE, {A: {0: 2, 1: NEW}}, {}),
    ),
    "revokes first": (
        at(STABLE, {A: [0, 1], B: [0]}),
        {A: [0, 2]},
        {},
        (OLD, OLD, UNREVOKED, {A: {0: 2}}, {A: [1], B: [0]}),
    ),
    "has revoked already": (
        at(STABLE, {A: [0, 1]}),
        {A: [0, 2]},
        {"owned": {A: [0], B: [9]}},
        (NEW, OLD, STABLE, {A: {0: 2, 2: NEW}}, {}),
    ),
    "still owns revoking partitions": (at(UNREVOKED, {A: [0]}, {A: [1]}), {A: [0]}, {"owned": {A: [1]}}, None),
    "does not report its partitions": (at(UNREVOKED, {A: [0]}, {A: [1]}), {A: [0]}, {}, None),
    "confirms its revocation": (
        at(UNREVOKED, {A: [0]}, {A: [1], B: [3]}),
        {A: [0]},
        {"owned": {A: [0]}},
        (NEW, OLD, STABLE, {A: {0: 2}}, {}),
    ),
    "owns nothing": (at(UNREVOKED, {A: [0]}, {A: [1]}), {A: [0]}, {"owned": {}}, (NEW, OLD, STABLE, {A: {0: 2}}, {})),
    "gets no unsubscribed topics": (
        at(STABLE, {A: [0]}),
        {A: [0], B: [0]},
        {"subscribed": [B]},
        (OLD, OLD, UNREVOKED, {}, {A: [0]}),
    ),
    "revokes an unsubscribed topic at once": (
        at(STABLE, {A: [0], B: [1]}, epoch=NEW),
        {A: [0], B: [1]},
        {"subscribed": [B], "changed": True},
        (NEW, NEW, UNREVOKED, {B: {1: 2}}, {A: [0]}),
    ),
    "revokes it in addition to others": (
        at(UNREVOKED, {A: [0], B: [1]}, {A: [7], B: [8]}),
        {A: [0], B: [1]},
        {"subscribed": [B], "changed": True},
        (OLD, OLD, UNREVOKED, {B: {1: 2}}, {A: [0, 7], B: [8]}),
    ),
    "has revoked the unsubscribed topic already": (
        at(STABLE, {A: [0], B: [1]}, epoch=NEW),
        {A: [0], B: [1]},
        {"subscribed": [B], "changed": True, "owned": {B: [1]}},
        (NEW, NEW, STABLE, {B: {1: 2}}, {}),
    ),
    "unsubscribes from a topic without partitions": (
        at(STABLE, {B: [1]}, epoch=NEW),
        {B: [1]},
        {"subscribed": [B], "changed": True},
        None,
    ),
    "unsubscribed earlier, and revokes with the next target": (
        at(STABLE, {A: [0]}, epoch=NEW),
        {A: [0]},
        {"subscribed": [B]},
        None,
    ),
}


@pytest.mark.parametrize(("current", "target", "more", "expected"), ROWS.values(), ids=ROWS)
def test_a_member_that(current, target, more, expected):
    found = step(current, target, **more)
    if expected is None:
        assert found is current
    else:
        assert shown(found) == expected


def test_a_stable_member_in_the_target_epoch_checks_no_owners():
    current = at(STABLE, {A: [0]}, epoch=NEW)
    assert step(current, {A: [0, 1]}, epoch=NEW) is current
    assert step(current, {A: [0, 1]}, epoch=NEW + 1).member_epoch == NEW + 1
