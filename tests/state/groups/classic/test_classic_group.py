"""A classic group without a coordinator: leadership, pending members and memory."""

from __future__ import annotations

import pytest

from pipeline_broker.state.groups.classic.classic_group import ClassicGroup, GroupState, Member
from pipeline_broker.state.groups.classic.messages import MemberProtocol


def member(member_id: str, instance_id: str | None = None, timeout_ms: int = 7, metadata: bytes = b"") -> Member:
    return Member(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id="client",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=timeout_ms,
        session_timeout_ms=5,
        protocols=(MemberProtocol("range", metadata),),
        is_new=True,
    )


def group_of(*members: Member) -> ClassicGroup:
    group = ClassicGroup(group_id="g", state=GroupState.PREPARING_REBALANCE, protocol_type="consumer")
    for each in members:
        group.add(each)
    return group


def test_rebalance_timeout_is_that_of_the_slowest_member() -> None:
    assert group_of(member("a", timeout_ms=7), member("b", timeout_ms=9)).rebalance_timeout_ms == 9
    assert group_of().rebalance_timeout_ms == 0


def test_a_removed_member_is_no_longer_awaited() -> None:
    group = group_of(member("a"), member("b"))
    group.pending_syncs = {"a", "b"}
    group.remove("a")
    assert (list(group.members), group.pending_syncs, group.leader) == (["b"], {"b"}, "b")


@pytest.mark.parametrize("waits", [True, False])
def test_replacing_a_static_member_keeps_leadership_and_pending_sync(waits: bool) -> None:
    group = group_of(member("old", "i"), member("other"))
    group.pending_syncs = {"other", "old"} if waits else {"other"}
    replaced = group.replace_static("old", "new")
    assert (group.members["new"], replaced.member_id, replaced.is_new) == (replaced, "new", False)
    assert (set(group.members), group.static_members, group.leader) == ({"new", "other"}, {"i": "new"}, "new")
    assert group.pending_syncs == ({"other", "new"} if waits else {"other"})


def test_an_empty_group_has_no_protocol() -> None:
    group = group_of(member("a"))
    group.next_generation(1)
    assert (group.state, group.protocol_name) == (GroupState.COMPLETING_REBALANCE, "range")
    group.transition(GroupState.PREPARING_REBALANCE, 2)
    group.remove("a")
    group.next_generation(3)
    assert (group.state, group.protocol_name, group.generation_id) == (GroupState.EMPTY, None, 2)


@pytest.mark.parametrize(
    ("members", "joined", "leader"),
    [("", "", None), ("ab", "", None), ("ab", "ab", "a"), ("ab", "a", "a"), ("ab", "b", "b"), ("abc", "bc", "b")],
)
def test_the_leader_is_a_member_that_has_joined(members: str, joined: str, leader: str | None) -> None:
    """Keeps the leader if it has joined, else elects the first member that has; elects none if none has."""
    group = group_of(*map(member, members))
    group.parked_joins = dict.fromkeys(joined)
    assert group.elect_joined_leader() is (leader is not None)
    if leader is not None:
        assert group.leader == leader
