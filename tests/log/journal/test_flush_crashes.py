"""A journal of topics with different flush rules, with kills and power cuts at every operation.

The machine is that of `test_crashes`. After a kill nothing acknowledged is lost. After a power cut a log may have lost
as many acknowledged records as its rules allow, from its end, and no others.
"""

import contextlib
from collections import Counter
from typing import ClassVar

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule, run_state_machine_as_test

from pipeline_broker.log.journal.flush_policy import FlushPolicy
from pipeline_broker.log.journal.journal import Journal
from pipeline_broker.log.segments.policies import DEFAULT_POLICIES, FlushRules
from tests.log.journal.test_crashes import SETTINGS, CrashMachine, assert_noticed

RULES = (FlushRules(messages=1), FlushRules(messages=3), FlushRules(ms=1000))
"""Of the three logs."""


class FlushMachine(CrashMachine):
    is_cut = False
    seen: ClassVar = Counter()

    def set_policies(self):
        for log, rules in zip(self.logs, RULES, strict=True):
            log.policies = attrs.evolve(DEFAULT_POLICIES, flush=rules)
            self.journal.flush_policy.topic_changed(str(log.partition), rules)
        self.promised = getattr(self, "promised", 0)  # rows from the front that `sync_written` covered

    def check_kept(self, found):
        if not self.is_cut:
            super().check_kept(found)
            return
        assert len(found) >= self.promised
        lost = Counter(partition for partition, _, _ in self.written[len(found) : self.acknowledged])
        for partition, rules in enumerate(RULES):
            assert lost[partition] < rules.messages, "the rules of the log promise more"
        self.seen["lost some"] += bool(lost)
        self.seen["lost nothing"] += not lost
        self.promised = min(self.promised, len(found))

    @precondition(lambda self: not self.pending and not self.flying)
    @rule(
        partition=st.sampled_from([2, 2, 2, 1, 1, 0]),
        size=st.sampled_from([10, 5000]),
        data=st.data(),
        again=st.booleans(),
    )
    def commit(self, partition, size, data, again):
        for _ in range(1 + again):
            self.append(partition, size)
            self.write()
            self.sync_one(data)
        self.seen["was due"] += self.journal.flush_policy.sync_within_ms is not None

    @rule()
    def sync_written(self):
        self.journal.sync_written()
        assert self.journal.flush_policy.sync_within_ms is None
        # Commits in flight have a sync of their own.
        self.promised = max(self.promised, self.acknowledged)

    @precondition(lambda self: self.journal.flush_policy.sync_within_ms is not None)
    @rule()
    def due(self):
        assert self.journal.flush_policy.sync_within_ms == 1000

    @rule(data=st.data())
    def power_cut(self, data):
        self.is_cut = True
        super().power_cut(data)
        self.is_cut = False

    @precondition(lambda self: not self.pending and not self.flying)
    @rule(data=st.data())
    def power_cut_that_loses_all_it_may(self, data):
        """Reach the interesting case in one step: rules that Hypothesis draws apart meet too rarely."""
        self.append(2, 10)
        self.write()
        self.sync_one(data)
        self.is_cut = True
        self.files.power_cut(lambda _: 0)
        self.open()
        self.is_cut = False

    @precondition(lambda self: not self.pending and not self.flying)
    @rule(before=st.integers(0, 3), during=st.integers(0, 3), data=st.data())
    def power_cut_while_a_sync_runs(self, before, during, data):
        """Write to the counted log until a commit has to wait, while a sync in the background is not done."""
        for partition in [2] + [1] * before:
            self.append(partition, 10)
            self.write()
            self.sync_one(data)

        def interrupted(*_):
            for _ in range(during):
                self.append(1, 10)
                self.write()
                if self.flying[-1][0].file is not None:
                    self.seen["waited beside a sync"] += 1
                    break
                self.flying.pop()
                self.acknowledged = len(self.written)
            raise PowerCut

        self.journal._sync_files = interrupted
        with contextlib.suppress(PowerCut):  # with nothing to sync, none runs
            self.journal.sync_written()
        self.is_cut = True
        self.files.power_cut(lambda _: 0)
        self.open()
        self.is_cut = False


class PowerCut(Exception):
    pass


@pytest.mark.parametrize("flush", ["always", "os"])
def test_a_power_cut_loses_what_the_rules_of_a_log_allow_and_a_kill_nothing(flush):
    class Machine(FlushMachine):
        seen: ClassVar = Counter()

    Machine.flush = flush
    run_state_machine_as_test(Machine, settings=SETTINGS)
    interesting = {"lost some", "lost nothing", "was due", "waited beside a sync"}
    assert interesting <= {name for name, count in Machine.seen.items() if count}


class WithDeadlinesOnly(FlushMachine):
    """One topic with a deadline, and none whose commits wait for a sync."""

    flush = "os"

    def set_policies(self):
        rules = FlushRules(ms=1000)
        self.logs[2].policies = attrs.evolve(DEFAULT_POLICIES, flush=rules)
        self.journal.flush_policy.topic_changed("2", rules)


def test_a_restart_after_a_kill_makes_records_durable_whose_deadline_ended_with_the_process():
    machine = WithDeadlinesOnly()
    machine.start(segment_kib=64, cache=0)
    machine.append(2, 10)
    machine.write()
    (flight,) = machine.flying
    machine.journal.sync(flight[0])
    machine.acknowledged = len(machine.written)
    machine.kill()
    kept = list(machine.written)
    assert kept
    machine.files.power_cut(lambda _: 0)
    machine.is_cut, machine.promised = True, len(kept)
    machine.open()
    assert machine.written == kept


class UnawareOfSegments(Journal):
    """Syncs the segment of a commit, but not the complete ones before it."""

    def _sync_files(self, segments, file):
        super()._sync_files((), file)


def test_a_sync_that_leaves_out_complete_segments_is_noticed(monkeypatch):
    monkeypatch.setattr("tests.log.journal.test_crashes.Journal", UnawareOfSegments)
    assert_noticed(FlushMachine)


def test_rules_that_are_not_kept_are_noticed():
    class Machine(FlushMachine):
        def set_policies(self):
            super().set_policies()
            self.logs[0].policies = attrs.evolve(DEFAULT_POLICIES, flush=FlushRules(messages=2))

    assert_noticed(Machine)


def test_records_that_count_as_durable_when_their_sync_begins_are_noticed(monkeypatch):
    class Early(FlushPolicy):
        def sync_begins(self, end_lsn):
            super().sync_begins(end_lsn)
            self.synced(end_lsn)

    monkeypatch.setattr("pipeline_broker.log.journal.journal.FlushPolicy", Early)
    assert_noticed(FlushMachine)
