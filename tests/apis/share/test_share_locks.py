"""Locks of acquired records: their expiry, one after the other, and their renewal."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from tests.apis.share.share_desk import RELEASE, RENEW, ShareDesk, acquired, errors


@pytest.fixture
def desk():
    """A member with a session that begins at the first record."""
    made = ShareDesk()
    made.begin()
    return made


def test_a_renewed_lock_lasts_longer(desk):
    """From the time of the renewal, which is not stored."""
    desk.produce(2)
    desk.fetch(1)
    desk.desk.now_ms += 20_000
    assert errors(desk.acknowledge(2, [(0, 0, RENEW)], is_renew_ack=True)) == [0]
    desk.desk.now_ms += 10_000
    desk.desk.broker.advance(desk.desk.now_ms)
    assert acquired(desk.fetch(3)) == [(1, 1, 2)]


def test_a_lock_renewed_with_a_shorter_setting_ends_at_the_reported_time(desk):
    desk.produce(1)
    desk.fetch(1)
    desk.configure({"share.record.lock.duration.ms": "15000"})
    answer = desk.acknowledge(2, [(0, 0, RENEW)], is_renew_ack=True)
    assert (errors(answer), answer.acquisition_lock_timeout_ms) == ([0], 15_000)
    assert desk.desk.broker.share.next_deadline_ms() == desk.desk.now_ms + 15_000
    desk.desk.now_ms += 15_000
    desk.desk.broker.advance(desk.desk.now_ms)
    assert acquired(desk.fetch(3)) == [(0, 0, 2)]


def test_locks_of_different_ages_end_one_after_the_other(desk):
    for epoch in (1, 2):
        desk.produce(1)
        desk.fetch(epoch)
        desk.desk.now_ms += 10_000
    for _ in range(2):
        desk.desk.now_ms += 10_000
        assert desk.desk.broker.share.next_deadline_ms() == desk.desk.now_ms
        desk.desk.broker.advance(desk.desk.now_ms)
    assert sum(last - first + 1 for first, last, _ in acquired(desk.fetch(3))) == 2


def test_records_of_an_expired_lock_follow_the_current_settings(desk):
    desk.produce(1)
    desk.fetch(1)
    desk.acknowledge(2, [(0, 0, RELEASE)])
    assert acquired(desk.fetch(3)) == [(0, 0, 2)]
    desk.configure({"share.delivery.count.limit": "2"})
    desk.desk.now_ms += 30_000
    desk.desk.broker.advance(desk.desk.now_ms)
    assert desk.offsets() == [(1, 0)], "delivered often enough"


def test_renewals_may_be_forbidden(desk):
    """By the group's `share.renew.acknowledge.enable`."""
    desk.configure({"share.renew.acknowledge.enable": "false"})
    desk.produce(1)
    desk.fetch(1)
    answer = desk.acknowledge(2, [(0, 0, RENEW)], is_renew_ack=True)
    assert errors(answer) == [ErrorCode.INVALID_REQUEST]
