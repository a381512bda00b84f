"""While records are on their way, or none can be written: who of a consumer group is answered when, and who stays."""

from __future__ import annotations

import pytest

from tests.state.groups.consumer.consumer_driver import ConsumerDriver


@pytest.fixture
def driver() -> ConsumerDriver:
    driver = ConsumerDriver()
    driver.create("t")
    return driver


def test_an_answer_waits_for_the_last_of_the_records_that_are_on_their_way(driver):
    driver.hold = True
    assert [driver.enter("m"), driver.enter("n")] == [None, None]
    told = []
    for write in list(driver.pending):
        driver.take(driver.coordinator.durable(write, driver.now_ms))
        told.append([answer.member_id for answer in driver.answers.values()])
    assert told == [["m"], ["m", "n"]]


def test_who_is_heard_of_while_nothing_can_be_written_keeps_no_session_but_his_own(driver):
    for member_id in ("m", "n"):
        driver.enter(member_id)
    driver.tick(30_000)
    driver.coordinator.consumer.heard_of("g", "m", driver.now_ms)
    driver.tick(30_000)
    assert set(driver.group().members) == {"m"}
