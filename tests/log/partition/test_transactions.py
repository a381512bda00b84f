"""A log with transactions against its model (see transaction_machine), and the same with sabotaged code."""

import attrs
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    run_state_machine_as_test,
)

from pipeline_broker.log.errors import JournalCorrupt
from pipeline_broker.log.partition import compaction_of_logs
from pipeline_broker.log.producers.ended_transactions import EndedTransactions
from pipeline_broker.log.producers.producer_state import ProducerStates
from tests.crashes.lengths import examples
from tests.log.partition.transaction_machine import CompactedMachine, TransactionMachine

SETTINGS = settings(
    max_examples=examples(200), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
BLIND = settings(SETTINGS, max_examples=1500, phases=[Phase.generate], derandomize=True, database=None)


def test_a_log_with_transactions_is_as_its_story_says():
    """Case 8."""
    run_state_machine_as_test(TransactionMachine, settings=SETTINGS)


def test_compaction_takes_nothing_from_readers_of_committed_records():
    run_state_machine_as_test(CompactedMachine, settings=SETTINGS)


def assert_noticed(machine=TransactionMachine):
    with pytest.raises((AssertionError, JournalCorrupt, StopIteration)):
        run_state_machine_as_test(machine, settings=BLIND)


def test_a_transaction_that_has_ended_counts_as_open_until_its_marker_is_durable():
    ended = EndedTransactions()
    ended.add(0, 5)
    ended.add(2, 7)
    firsts = []
    for high_watermark in (5, 6, 7, 8, 9):
        ended.durable(high_watermark)
        firsts.append(ended.first_undurable_offset)
    assert firsts == [0, 2, 2, None, None]


def test_a_stable_offset_that_trusts_markers_on_their_way_is_noticed(monkeypatch):
    monkeypatch.setattr(EndedTransactions, "first_undurable_offset", None)
    assert_noticed()


def test_open_transactions_that_are_forgotten_by_a_start_are_noticed(monkeypatch):
    original = ProducerStates.restored
    monkeypatch.setattr(ProducerStates, "restored", staticmethod(lambda snapshot, _=(): original(snapshot)))
    assert_noticed()


def test_aborted_transactions_that_are_forgotten_before_the_archive_has_them_are_noticed(monkeypatch):
    monkeypatch.setattr(EndedTransactions, "add_aborted", lambda self, transaction: None)
    assert_noticed()


def test_missing_archived_aborted_transactions_are_noticed(monkeypatch):
    monkeypatch.setattr(
        "pipeline_broker.log.archive.archived_log.ArchivedLog.aborted_transactions", lambda self, *_: None
    )
    assert_noticed()


def test_a_batch_outside_that_slips_into_a_transaction_is_noticed(monkeypatch):
    monkeypatch.setattr(ProducerStates, "check_outside", lambda self, producer_id: None)
    assert_noticed()


def test_a_late_marker_that_ends_the_next_transaction_is_noticed(monkeypatch):
    monkeypatch.setattr(ProducerStates, "check_marker", lambda self, *_: None)
    assert_noticed()


def test_epochs_of_coordinators_that_a_start_forgets_are_noticed(monkeypatch):
    original = ProducerStates.snapshot

    def snapshot(self):
        for producer in self._producers.values():
            producer.coordinator_epoch = -1
        return original(self)

    monkeypatch.setattr(ProducerStates, "snapshot", snapshot)
    assert_noticed()


def test_compaction_that_does_not_know_of_aborted_transactions_is_noticed(monkeypatch):
    monkeypatch.setattr("pipeline_broker.log.compaction.cleaning.aborted_in", lambda *_: [])
    assert_noticed(CompactedMachine)


def test_compaction_that_passes_an_open_transaction_is_noticed(monkeypatch):
    compacted = compaction_of_logs._compacted

    def careless(log, manifest, rules):
        return compacted(log, attrs.evolve(manifest, open_transactions=()), rules)

    monkeypatch.setattr(compaction_of_logs, "_compacted", careless)
    assert_noticed(CompactedMachine)
