"""Records of dead-letter queues, and the conditions for them."""

from __future__ import annotations

from typing import Any

import pytest

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.broker import dead_letters
from pipeline_broker.records.batch import iterate_batches
from pipeline_broker.records.record import iterate_records
from pipeline_broker.state.features import FeatureUpdate, UpgradeType
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from tests.apis.share.share_desk import ACCEPT, GROUP, REJECT, RELEASE, ShareDesk

NAME = "errors.deadletterqueue.topic.name"
ENABLED = {"errors.deadletterqueue.group.enable": "true"}
QUEUE = "dlq.g"


def desk_of(*settings: str, partitions: int = 1, **configs: str) -> ShareDesk:
    desk = ShareDesk(*settings, partitions=partitions)
    desk.configure({NAME: QUEUE, "share.auto.offset.reset": "earliest", **configs})
    desk.heartbeat()
    desk.fetch(0, range(partitions))
    return desk


def make_queue(desk: ShareDesk, name: str = QUEUE, partitions: int = 1, **configs: str) -> None:
    wanted = [CreateTopicsRequest.CreatableTopicConfig(*each) for each in (ENABLED | configs).items()]
    topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1, configs=wanted)
    assert desk.ask(CreateTopicsRequest([topic]), 7).topics[0].error_code == 0


def batches(desk: ShareDesk, name: str, partition: int) -> list[Any]:
    log = desk.desk.broker.logs.find(name, partition)
    if not log.high_watermark:
        return []
    return list(iterate_batches(b"".join(log.read(0, 1 << 20, at_least_one=True).parts)))


def letters(desk: ShareDesk, name: str = QUEUE, partition: int = 0) -> list[dict[str, str]]:
    return [
        {header.removeprefix("__dlq.errors."): value.decode() for header, value in record.headers}
        for header, batch in batches(desk, name, partition)
        for record in iterate_records(batch, header)
        if record.key is None and record.value is None
    ]


def test_a_rejected_record_is_described(desk: ShareDesk) -> None:
    desk.produce(4)
    desk.fetch(1)
    desk.acknowledge(2, [(0, 0, ACCEPT), (1, 2, REJECT), (3, 3, RELEASE)])
    expected: dict[str, Any] = {
        "topic": "t",
        "partition": "0",
        "group": GROUP,
        "delivery.count": "1",
        "message": "Offset rejected by client.",
    }
    assert letters(desk) == [expected | {"offset": offset} for offset in "12"]
    assert letters(desk.restart()) == letters(desk)


@pytest.fixture
def desk() -> ShareDesk:
    desk = desk_of()
    make_queue(desk)
    return desk


def test_a_record_that_was_delivered_too_often_is_described() -> None:
    desk = desk_of(**{"share.delivery.count.limit": "2"})
    make_queue(desk)
    desk.produce(1)
    for epoch in (1, 3):
        desk.fetch(epoch)
        assert not letters(desk)
        desk.acknowledge(epoch + 1, [(0, 0, RELEASE)])
    (letter,) = letters(desk)
    assert (letter["delivery.count"], letter["message"]) == ("2", "Offset delivery count exceeded the threshold.")


def test_a_partition_has_its_own_partition_of_the_queue() -> None:
    desk = desk_of(partitions=3)
    make_queue(desk, partitions=2)
    for partition in range(3):
        desk.produce(1, partition)
    desk.fetch(1)
    for partition in range(3):
        desk.acknowledge(2 + partition, [(0, 0, REJECT)], partition)
    assert [[letter["partition"] for letter in letters(desk, partition=queue)] for queue in range(2)] == [
        ["0", "2"],
        ["1"],
    ]


def test_batches_are_as_large_as_the_queue_permits() -> None:
    desk = desk_of()
    make_queue(desk, **{"max.message.bytes": "1000"})
    desk.produce(7)
    desk.fetch(1)
    desk.acknowledge(2, [(0, 6, REJECT)])
    assert [letter["offset"] for letter in letters(desk)] == list("0123456")
    sizes = [len(batch) for _, batch in batches(desk, QUEUE, 0)]
    assert len(sizes) > 1
    assert max(sizes) <= 1000


@pytest.mark.parametrize(
    ("name", "configs"),
    [
        ("other", {}),
        (QUEUE, {"errors.deadletterqueue.group.enable": "false"}),
        (QUEUE, {"cleanup.policy": "compact"}),
    ],
)
def test_other_topics_receive_nothing(name: str, configs: dict[str, str]) -> None:
    desk = desk_of(**{NAME: name})
    make_queue(desk, name, **configs)
    assert_rejected_without_a_letter(desk, name)


def test_a_missing_queue_is_not_created() -> None:
    desk = desk_of()
    assert_rejected_without_a_letter(desk, None)
    assert desk.desk.broker.topics.get(QUEUE) is None


def test_earlier_levels_of_share_groups_have_no_queues(desk: ShareDesk) -> None:
    features = desk.desk.broker.features
    update = FeatureUpdate("share.version", 1, UpgradeType.SAFE_DOWNGRADE)
    write = features.update([update], {76}, validate_only=False)
    desk.desk.commit([desk.desk.broker.append_metadata(write, desk.desk.now_ms)])
    features.durable(write)
    assert_rejected_without_a_letter(desk, QUEUE)


def test_the_prefix_can_be_changed() -> None:
    desk = desk_of("errors.deadletterqueue.topic.name.prefix=dead-", **{NAME: "dead-g"})
    make_queue(desk, "dead-g")
    desk.produce(1)
    desk.fetch(1)
    desk.acknowledge(2, [(0, 0, REJECT)])
    assert len(letters(desk, "dead-g")) == 1


def assert_rejected_without_a_letter(desk: ShareDesk, name: str | None) -> None:
    desk.produce(1)
    desk.fetch(1)
    desk.acknowledge(2, [(0, 0, REJECT)])
    assert desk.offsets() == [(1, 0)]
    assert name is None or not letters(desk, name)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> ShareDesk:
    """A record in each of three partitions, delivered for the last time; a turn has room for two dead letters."""
    monkeypatch.setattr(dead_letters, "AT_ONCE_MAX", 2)
    desk = desk_of(partitions=3, **{"share.delivery.count.limit": "2"})
    make_queue(desk)
    for partition in range(3):
        desk.produce(1, partition)
    desk.fetch(1)
    desk.fetch(2, acknowledgements={partition: [(0, 0, RELEASE)] for partition in range(3)})
    assert not letters(desk)
    return desk


def test_a_request_that_rejects_too_many_records_is_to_be_sent_again(three: ShareDesk) -> None:
    everything = {partition: [(0, 0, REJECT)] for partition in range(3)}
    answer = three.fetch(3, acknowledgements=everything)
    codes = [data.acknowledge_error_code for topic in answer.responses for data in topic.partitions]
    assert sorted(codes) == [0, 0, ErrorCode.REQUEST_TIMED_OUT]
    assert len(letters(three)) == 2
    three.acknowledge(4, [(0, 0, REJECT)], codes.index(ErrorCode.REQUEST_TIMED_OUT))
    assert len(letters(three)) == 3


def test_locks_that_expire_together_are_described_in_several_turns(three: ShareDesk) -> None:
    three.desk.now_ms += 30_000
    for count in (2, 3):
        three.desk.broker.advance(three.desk.now_ms)
        assert len(letters(three)) == count


def test_a_member_that_leaves_with_too_many_records_leaves_locks_that_expire(three: ShareDesk) -> None:
    three.fetch(-1)
    assert len(letters(three)) == 2
