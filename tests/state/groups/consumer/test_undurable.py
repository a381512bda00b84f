"""Consumer groups while records are pending or cannot be written: responses and sessions."""

from __future__ import annotations

import pytest

from tests.state.groups.consumer.consumer_driver import ConsumerDriver


@pytest.fixture
def driver() -> ConsumerDriver:
    driver = ConsumerDriver()
    driver.create("t")
    return driver


def test_a_response_waits_for_the_last_pending_record(driver):
    driver.hold = True
    assert [driver.enter("m"), driver.enter("n")] == [None, None]
    told = []
    for write in list(driver.pending):
        driver.take(driver.coordinator.durable(write, driver.now_ms))
        told.append([answer.member_id for answer in driver.answers.values()])
    assert told == [["m"], ["m", "n"]]


def test_a_member_keeps_only_its_own_session_while_writes_fail(driver):
    for member_id in ("m", "n"):
        driver.enter(member_id)
    driver.tick(30_000)
    driver.coordinator.consumer.refresh_session("g", "m", driver.now_ms)
    driver.tick(30_000)
    assert set(driver.group().members) == {"m"}
