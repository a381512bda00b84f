"""Commits and fetches of offsets in a consumer group, by members of both protocols and their epochs."""

from __future__ import annotations

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.config.broker_config import BrokerConfig
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from tests.state.groups.consumer.consumer_driver import ConsumerDriver
from tests.state.groups.consumer.test_migration import protocols

NONE, STALE, UNKNOWN = ErrorCode.NONE, ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID
ILLEGAL, UNSUPPORTED = ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNSUPPORTED_VERSION


@pytest.fixture
def driver() -> ConsumerDriver:
    """Return a driver with two consumer members in epoch 3; `a` still owns partitions from epoch 2."""
    driver = ConsumerDriver(BrokerConfig(group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=0))
    driver.create("t")
    driver.enter("a")
    driver.enter("b")
    kept = driver.beat("a", member_epoch=2).assignment
    assert driver.beat("a", member_epoch=2, owned=kept).member_epoch == 3
    assert driver.beat("b", member_epoch=3).member_epoch == 3
    return driver


def kept_by_a(driver):
    (epochs,) = driver.group().members["a"].current.assigned.values()
    return sorted(epochs)


def commit(driver, member_id, epoch, *partitions, **more):
    topic_id = driver.topics.get("t").topic_id
    parts = [PartitionCommit(topic="t", partition=each, offset=5, topic_id=topic_id) for each in partitions or (0,)]
    request = CommitRequest(group_id="g", member_id=member_id, generation_id=epoch, partitions=parts, **more)
    (error,) = set(driver.coordinator.commit(request, driver.now_ms).errors)
    return error


def test_only_members_commit_and_only_in_their_epoch(driver):
    assert commit(driver, "a", 3) is NONE
    assert commit(driver, "a", 3, 0, 1, 2, 3) is NONE, "whether it owns them or not"
    assert commit(driver, "a", 4) is STALE
    assert commit(driver, "a", -1) is STALE
    assert commit(driver, "stranger", 3) is UNKNOWN
    assert commit(driver, "", -1) is UNKNOWN


def test_an_older_epoch_commits_only_partitions_owned_since(driver):
    first, second = kept_by_a(driver)
    (given, _) = sorted({0, 1, 2, 3} - {first, second})
    assert commit(driver, "a", 2, first, second) is NONE
    assert commit(driver, "a", 2, first, given) is STALE
    assert commit(driver, "a", 2, given) is STALE
    assert commit(driver, "a", 1, first) is STALE, "it was given in epoch 2"
    assert commit(driver, "b", 2, given) is STALE, "it was given in epoch 3"


def test_a_revoking_member_commits_until_it_has_revoked(driver):
    had = set(kept_by_a(driver))
    for member_id in "cd":
        driver.enter(member_id)
    told = driver.beat("a", member_epoch=3).assignment
    topic_id = driver.topics.get("t").topic_id
    (revoking,) = had - told[topic_id]
    assert driver.group().members["a"].current.member_epoch == 3
    assert commit(driver, "a", 2, revoking) is NONE
    driver.beat("a", member_epoch=3, owned=told)
    assert commit(driver, "a", 3, revoking) is STALE


def test_old_request_versions_cannot_commit_for_consumer_members(driver):
    assert commit(driver, "a", 3, missing_group_named=False) is UNSUPPORTED
    assert commit(driver, "a", 3, missing_group_named=False, producer_id=1) is NONE, "but in a transaction"


def test_a_classic_member_commits_with_any_version_and_gets_classic_errors(driver):
    joined = driver.join("join", protocols=protocols("t"))
    member_id, epoch = joined.member_id, joined.generation_id
    assert commit(driver, member_id, epoch, missing_group_named=False) is NONE
    assert commit(driver, member_id, epoch + 1) is ILLEGAL
    assert driver.coordinator.fetch_error("g", member_id, epoch) is NONE
    assert driver.coordinator.fetch_error("g", member_id, epoch - 1) is ILLEGAL


def test_any_client_commits_to_an_empty_group_without_an_epoch(driver):
    for member_id in "ab":
        driver.beat(member_id, member_epoch=-1)
    assert commit(driver, "", -1) is NONE
    assert commit(driver, "a", 3) is UNKNOWN
    assert commit(driver, "a", 0) is UNKNOWN


@pytest.mark.parametrize(
    ("member_id", "epoch", "error"),
    [
        (None, -1, NONE),
        (None, 3, UNKNOWN),
        (None, 0, UNKNOWN),
        ("", -1, UNKNOWN),
        ("stranger", -1, UNKNOWN),
        ("a", 3, NONE),
        ("a", 2, STALE),
        ("a", 4, STALE),
        ("a", -1, STALE),
    ],
)
def test_offsets_are_read_without_a_member_or_in_its_epoch(driver, member_id, epoch, error):
    assert driver.coordinator.fetch_error("g", member_id, epoch) is error


def test_any_client_may_read_offsets_of_a_missing_group(driver):
    assert driver.coordinator.fetch_error("other", "a", 3) is NONE
