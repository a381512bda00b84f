"""Deletion of the offsets of deleted topics, in batches: none returns, and no later offset is lost."""

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pipeline_broker.state.groups import forgetting
from pipeline_broker.state.groups.commits import CommitRequest, PartitionCommit
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.state.groups.offset_records import NO_TOPIC_ID
from pipeline_broker.state.topics import NewTopic
from tests.crashes.lengths import examples
from tests.state.group_driver import Driver
from tests.state.replaying import replay_group

PRODUCER_ID = 7
GROUPS, TOPICS, PARTITIONS = ("a", "b"), ("t", "u"), range(4)
KEYS = st.lists(st.tuples(st.sampled_from(TOPICS), st.sampled_from(PARTITIONS)), min_size=1, unique=True)


def commit(driver, keys, offset, group_id="a", producer_id=None):
    """Commit like the broker: a transaction deletes queued offsets of its partitions first."""
    partitions = [PartitionCommit(topic, partition, offset) for topic, partition in keys]
    request = CommitRequest(group_id=group_id, partitions=partitions, producer_id=producer_id)
    if producer_id is not None:
        driver.take(driver.coordinator.forget_before(request))
    result = driver.coordinator.commit(request, driver.now_ms)
    assert result.write is not None
    driver.pending.append(result.write)
    if not driver.hold:
        driver.settle()


def offsets(coordinator, group_id="a"):
    return {(found.topic, found.partition): found.committed.offset for found in coordinator.fetch(group_id)}


def forget_all(driver):
    while driver.coordinator.next_deadline_ms() <= driver.now_ms:
        driver.take(driver.coordinator.advance(driver.now_ms))


def test_offsets_of_many_groups_are_deleted_in_batches():
    driver = Driver()
    groups = [f"g{number}" for number in range(3 * forgetting.GROUPS_AT_ONCE_MAX)]
    for group_id in groups:
        commit(driver, [("t", 0), ("u", 0)], 1, group_id)
    driver.hold = True
    driver.take(driver.coordinator.forgetting.forget_topic("t"))
    forgotten = [len(driver.pending)]
    while driver.coordinator.next_deadline_ms() <= driver.now_ms:
        driver.take(driver.coordinator.advance(driver.now_ms))
        forgotten.append(len(driver.pending) - sum(forgotten))
    assert forgotten == [forgetting.GROUPS_AT_ONCE_MAX] * 3
    driver.settle()
    assert {tuple(offsets(driver.coordinator, group_id)) for group_id in groups} == {(("u", 0),)}


def test_offsets_of_many_partitions_are_deleted_in_batches():
    driver = Driver()
    commit(driver, [("t", number) for number in range(2 * forgetting.OFFSETS_AT_ONCE_MAX + 1)], 1)
    driver.hold = True
    driver.take(driver.coordinator.forgetting.forget_topic("t"))
    forget_all(driver)
    assert [len(write.records) for write in driver.pending] == [forgetting.OFFSETS_AT_ONCE_MAX] * 2 + [1]
    driver.settle()
    assert offsets(driver.coordinator) == {}


def test_a_batch_spans_several_groups(monkeypatch):
    monkeypatch.setattr(forgetting, "OFFSETS_AT_ONCE_MAX", 3)
    driver = Driver()
    for group_id in "abc":
        commit(driver, [("t", 0), ("t", 1)], 1, group_id)
    driver.hold = True
    driver.take(driver.coordinator.forgetting.forget_topic("t"))
    first = [(write.subject, len(write.records)) for write in driver.pending]
    forget_all(driver)
    assert first == [("a", 2), ("b", 1)]
    assert [(write.subject, len(write.records)) for write in driver.pending[2:]] == [("b", 1), ("c", 2)]


def test_refused_and_transactional_commits_stay_queued_for_deletion(monkeypatch):
    monkeypatch.setattr(forgetting, "OFFSETS_AT_ONCE_MAX", 1)
    driver = Driver()
    commit(driver, [("t", number) for number in range(3)], 1)
    driver.take(driver.coordinator.forgetting.forget_topic("t"))
    stored = CommitRequest(group_id="a", partitions=[PartitionCommit("t", 1, 5)], producer_id=PRODUCER_ID)
    assert driver.coordinator.commit(stored, driver.now_ms).write is not None
    driver.coordinator.memory.bytes_max = 0
    refused = CommitRequest(group_id="a", partitions=[PartitionCommit("t", 2, 5, metadata="larger")])
    assert driver.coordinator.commit(refused, driver.now_ms).write is None
    forget_all(driver)
    assert offsets(driver.coordinator) == {}


def test_transactional_offsets_of_a_recreated_topic_are_kept(monkeypatch):
    monkeypatch.setattr(forgetting, "OFFSETS_AT_ONCE_MAX", 1)
    driver = Driver()
    commit(driver, [("t", number) for number in range(4)], 1)
    driver.take(driver.coordinator.forgetting.forget_topic("t"))
    commit(driver, [("t", 1), ("u", 0)], 5, producer_id=PRODUCER_ID)
    assert offsets(driver.coordinator) == {("t", 2): 1, ("t", 3): 1}
    forget_all(driver)
    driver.coordinator.end_transaction(PRODUCER_ID, committed=True)
    assert offsets(driver.coordinator) == {("t", 1): 5, ("u", 0): 5}


def test_startup_keeps_offsets_of_existing_topics():
    """It compares topic ids. Earlier releases stored offsets of transactions without an id."""
    own, earlier = b"o" * 16, b"e" * 16
    driver = Driver()
    driver.topics.durable(driver.topics.create(NewTopic(name="t", topic_id=own, partitions=4)))
    wanted = [("t", own), ("t", earlier), ("t", NO_TOPIC_ID), ("gone", own), ("gone", NO_TOPIC_ID)]
    commits = [PartitionCommit(topic, place, 7, topic_id=topic_id) for place, (topic, topic_id) in enumerate(wanted)]
    for producer_id in (None, PRODUCER_ID):
        request = CommitRequest(group_id="b" if producer_id else "a", partitions=commits, producer_id=producer_id)
        driver.coordinator.durable(driver.coordinator.commit(request, driver.now_ms).write, driver.now_ms)
    driver.coordinator.forgetting.forget_missing(driver.topics)
    assert driver.coordinator.forgetting
    forget_all(driver)
    driver.coordinator.end_transaction(PRODUCER_ID, committed=True)
    for group_id in GROUPS:
        assert offsets(driver.coordinator, group_id).keys() == {("t", 0), ("t", 2)}


class ForgottenTopics(RuleBasedStateMachine):
    """Groups commit to topics that are deleted and created again; a model contains the expected offsets."""

    @initialize()
    def begin(self):
        self.driver = Driver(hold=True)
        self.shown = {group_id: {} for group_id in GROUPS}
        self.stored = {}  # by the open transaction, for group a
        self.next_offset = 0
        self.kept = forgetting.GROUPS_AT_ONCE_MAX, forgetting.OFFSETS_AT_ONCE_MAX
        forgetting.GROUPS_AT_ONCE_MAX = forgetting.OFFSETS_AT_ONCE_MAX = 1

    def teardown(self):
        forgetting.GROUPS_AT_ONCE_MAX, forgetting.OFFSETS_AT_ONCE_MAX = self.kept

    @rule(group_id=st.sampled_from(GROUPS), keys=KEYS)
    def commit(self, group_id, keys):
        self.next_offset += 1
        commit(self.driver, keys, self.next_offset, group_id)
        self.shown[group_id].update(dict.fromkeys(keys, self.next_offset))
        if group_id == "a":
            for key in keys:
                self.stored.pop(key, None)  # the later record counts

    @rule(keys=KEYS)
    def store_in_the_transaction(self, keys):
        self.next_offset += 1
        commit(self.driver, keys, self.next_offset, producer_id=PRODUCER_ID)
        self.stored.update(dict.fromkeys(keys, self.next_offset))

    @rule(committed=st.booleans())
    def end_the_transaction(self, committed):
        self.driver.settle()
        self.driver.coordinator.end_transaction(PRODUCER_ID, committed=committed)
        if committed:
            self.shown["a"].update(self.stored)
        self.stored = {}

    @rule(topic=st.sampled_from(TOPICS))
    def delete_and_recreate_the_topic(self, topic):
        self.driver.take(self.driver.coordinator.forgetting.forget_topic(topic))
        for found in [*self.shown.values(), self.stored]:
            for key in [key for key in found if key[0] == topic]:
                del found[key]

    @rule()
    def advance(self):
        self.driver.take(self.driver.coordinator.advance(self.driver.now_ms))

    @rule()
    def settle_records(self):
        self.driver.settle()

    @invariant()
    def a_queued_batch_is_scheduled_at_once(self):
        if hasattr(self, "driver") and self.driver.coordinator.forgetting:
            assert self.driver.coordinator.next_deadline_ms() <= self.driver.now_ms

    @rule()
    def check_after_everything_settled(self):
        forget_all(self.driver)
        self.driver.settle()
        for group_id in GROUPS:
            assert offsets(self.driver.coordinator, group_id) == self.shown[group_id]
        if not self.stored:
            replayed = GroupCoordinator(self.driver.settings)
            for record in self.driver.journal:
                replay_group(replayed, record)
            assert offsets(replayed, "b") == self.shown["b"]


TestForgottenTopics = ForgottenTopics.TestCase
TestForgottenTopics.settings = hypothesis_settings(max_examples=examples(150), stateful_step_count=25, deadline=None)
