"""A state machine test of share groups: joins, heartbeats, silence, leaves, changed topics and broker crashes.

Invariants:

* Replayed records give the durable description and the same memory.
* Epochs never decrease.

After two heartbeats of all members each partition has a reader. After all have left, only partition states take memory.
"""

from __future__ import annotations

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.config.group_settings import ShareGroupSettings
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.groups.memory import GROUP_BYTES, SHARE_STATE_BYTES, sizes_of
from pipeline_broker.state.groups.share.messages import FoundTopic, Heartbeat, ShareGroupError
from tests.crashes.lengths import examples
from tests.state.replaying import replay_group

IDS = {"a": b"a" * 16, "b": b"b" * 16, "c": b"c" * 16}
MEMBERS = st.sampled_from(["one", "two", "three", "four"])
SIZE_MAX = 3


class ShareGroupMachine(RuleBasedStateMachine):
    @initialize(interval_ms=st.sampled_from([0, 1_000]))
    def begin(self, interval_ms):
        self.config = BrokerConfig(group_share_max_size=SIZE_MAX, group_share_assignment_interval_ms=interval_ms)
        self.settings = ShareGroupSettings.of(self.config, {})
        self.topics = {"a": FoundTopic(IDS["a"], 2)}
        self.journal = []
        self.now_ms = 1_000_000
        self.epochs: dict[str, int] = {}
        self.told: dict[str, dict] = {}
        self.wanted: dict[str, list[str]] = {}
        self.deadlines: dict[str, int] = {}
        self.group_epoch = 0
        self.coordinator = GroupCoordinator(self.config)

    def replayed(self):
        other = GroupCoordinator(self.config)
        for record in self.journal:
            replay_group(other, record)
        other.loaded(self.now_ms)
        return other

    def keep(self, *writes):
        for write in writes:
            if write is not None:
                self.journal += write.records
                self.coordinator.durable(write, self.now_ms)

    def beat(self, member_id, epoch, topics):
        heartbeat = Heartbeat(
            group_id="g", member_id=member_id, member_epoch=epoch, topics=topics, client_id="c", client_host="/h"
        )
        answer = self.coordinator.share.heartbeat(heartbeat, self.topics.get, self.now_ms)
        self.keep(answer.write)
        if topics is not None:
            self.wanted[member_id] = topics
        assert answer.member_epoch >= self.epochs.get(member_id, 0)
        self.epochs[member_id] = answer.member_epoch
        self.deadlines[member_id] = self.now_ms + self.settings.session_timeout_ms
        if answer.assignment is not None:
            self.told[member_id] = answer.assignment
        group = self.coordinator.share.existing("g")
        assert len({(one.topic_id, one.partition) for one in answer.begins}) == len(answer.begins)
        assert {one.state_epoch for one in answer.begins} <= {group.epoch}

    def gone(self, member_id):
        for known in (self.epochs, self.told, self.wanted, self.deadlines):
            del known[member_id]

    @rule(member_id=MEMBERS, topics=st.lists(st.sampled_from("abc"), max_size=2))
    def join(self, member_id, topics):
        if member_id not in self.epochs and len(self.epochs) == SIZE_MAX:
            with pytest.raises(ShareGroupError) as refused:
                self.beat(member_id, 0, topics)
            assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED
            return
        self.beat(member_id, 0, topics)
        assert self.epochs[member_id] == self.coordinator.share.existing("g").assignment_epoch

    @rule(member_id=MEMBERS, topics=st.none() | st.lists(st.sampled_from("abc"), max_size=2))
    def stay(self, member_id, topics):
        if member_id in self.epochs:
            self.beat(member_id, self.epochs[member_id], topics)

    @rule(member_id=MEMBERS)
    def leave(self, member_id):
        if member_id in self.epochs:
            heartbeat = Heartbeat(group_id="g", member_id=member_id, member_epoch=-1)
            self.keep(self.coordinator.share.heartbeat(heartbeat, self.topics.get, self.now_ms).write)
            self.gone(member_id)

    @rule(passed_ms=st.sampled_from([1, 999, 20_000]))
    def time_passes(self, passed_ms):
        self.now_ms += passed_ms
        silent = [member_id for member_id, due_ms in self.deadlines.items() if due_ms <= self.now_ms]
        next_ms = self.coordinator.share.next_deadline_ms()
        assert next_ms == min(self.deadlines.values(), default=None)
        self.keep(*self.coordinator.advance(self.now_ms).writes)
        for member_id in silent:
            self.gone(member_id)

    @rule(name=st.sampled_from("abc"), partitions=st.integers(0, 4))
    def change_topic(self, name, partitions):
        """Create or grow a topic, or delete it (0 partitions) with its states."""
        known = self.topics.get(name)
        if not partitions:
            self.topics.pop(name, None)
            group = self.coordinator.share.find("g")
            if group is not None:
                share = self.coordinator.share
                self.keep(share.write(group, share.forget(group, {IDS[name]})))
        elif known is None or known.partitions < partitions:
            self.topics[name] = FoundTopic(IDS[name], partitions)

    @precondition(lambda self: not self.epochs)
    @rule()
    def delete(self):
        if self.coordinator.share.find("g") is None:
            return
        errors, outcome = self.coordinator.delete(["g"], self.now_ms)
        self.keep(*outcome.writes)
        assert errors["g"] is ErrorCode.NONE
        assert self.coordinator.share.find("g") is None
        assert self.coordinator.memory.bytes_held == 0
        self.group_epoch = 0

    @rule()
    def crash(self):
        """Sessions restart with the broker's default length."""
        self.coordinator = self.replayed()
        due_ms = self.now_ms + ShareGroupSettings().session_timeout_ms
        self.deadlines = dict.fromkeys(self.deadlines, due_ms)

    @precondition(lambda self: self.epochs)
    @rule()
    def converge(self):
        """Each subscribed partition has a reader."""
        for _ in range(2):
            for member_id in list(self.epochs):
                self.now_ms += self.settings.assignment_interval_ms
                self.beat(member_id, self.epochs[member_id], None)
        read = {
            (topic_id, partition)
            for told in self.told.values()
            for topic_id, partitions in told.items()
            for partition in partitions
        }
        wanted = {name for names in self.wanted.values() for name in names} & self.topics.keys()
        assert read == {(IDS[name], each) for name in wanted for each in range(self.topics[name].partitions)}
        lengths = len(self.journal)
        for member_id in list(self.epochs):
            self.beat(member_id, self.epochs[member_id], None)
        assert len(self.journal) == lengths, "unchanged state is not written again"

    @invariant()
    def replayed_records_give_the_same_groups(self):
        if not hasattr(self, "journal"):
            return
        group, again = self.coordinator.share.find("g"), self.replayed()
        found = again.share.find("g")
        assert (group is None) == (found is None)
        if group is not None:
            assert group.shown == group.described() == found.described() == found.shown
            assert found.target == group.target
            assert found.metadata_hash == group.metadata_hash
        assert again.memory.bytes_held == self.coordinator.memory.bytes_held

    @invariant()
    def members_are_those_with_heartbeats(self):
        if not hasattr(self, "journal"):
            return
        group = self.coordinator.share.find("g")
        if group is None:
            assert not self.epochs
            return
        assert {each.member_id: each.epoch for each in group.members.values()} == self.epochs
        assert {each.member_id: list(each.topics) for each in group.members.values()} == {
            member_id: sorted(set(topics)) for member_id, topics in self.wanted.items()
        }
        assert group.epoch >= max(self.group_epoch, group.assignment_epoch)
        self.group_epoch = group.epoch
        assert [each.state for each in self.coordinator.list_groups()] == ["Stable" if self.epochs else "Empty"]

    @invariant()
    def an_empty_group_holds_only_its_states(self):
        if not hasattr(self, "journal") or self.epochs:
            return
        group = self.coordinator.share.find("g")
        states = 0 if group is None else sum(len(known) for _, known in group.initialized.values())
        held = 0 if group is None else GROUP_BYTES + sizes_of(("g",)) + SHARE_STATE_BYTES * states
        assert self.coordinator.memory.bytes_held == held


TestShareGroupMachine = ShareGroupMachine.TestCase
TestShareGroupMachine.settings = hypothesis_settings(max_examples=examples(50), stateful_step_count=25, deadline=None)
