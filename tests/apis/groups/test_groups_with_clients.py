"""Consumer groups with unmodified clients: two members share a topic, one leaves, offsets survive a restart."""

from __future__ import annotations

import asyncio
import time

import pytest

pytestmark = pytest.mark.clients

SETTINGS = ["group.initial.rebalance.delay.ms=100", "num.partitions=4"]
RECORDS = 40
SECONDS_MAX = 30
MODES = pytest.mark.parametrize("mode", ["classic", "pipelined"])


def wait_until(step, done):
    """Run steps until all is done, or fail at the timeout."""
    deadline = time.monotonic() + SECONDS_MAX
    while not done():
        assert time.monotonic() < deadline, "the group does not settle"
        step()


def fill(bootstrap, first=0):
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    for number in range(first, first + RECORDS):
        producer.produce("events", str(number).encode(), partition=number % 4)
    assert producer.flush(SECONDS_MAX) == 0


@MODES
def test_confluent_kafka(broker_process, mode) -> None:
    """librdkafka: sharing, handover, committed offsets after a restart, describe and delete by the admin client."""
    from confluent_kafka import Consumer, TopicPartition
    from confluent_kafka.admin import AdminClient

    broker = broker_process(mode=mode, settings=SETTINGS)
    fill(broker.bootstrap)
    seen = []

    def consumer(bootstrap):
        made = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "g",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 200,
                "session.timeout.ms": 6_000,
            }
        )
        made.subscribe(["events"])
        return made

    members = [consumer(broker.bootstrap), consumer(broker.bootstrap)]

    def poll():
        for member in members:
            message = member.poll(0.05)
            if message is not None and message.error() is None:
                seen.append(int(message.value()))

    def consumed():
        """The positions of the members, without records read before a handover."""
        return sum(max(place.offset, 0) for member in members for place in member.position(member.assignment()))

    wait_until(poll, lambda: all(len(member.assignment()) == 2 for member in members) and consumed() == RECORDS)
    assert set(seen) == set(range(RECORDS))
    for member in members:
        member.commit(asynchronous=False)
    members.pop().close()
    wait_until(poll, lambda: len(members[0].assignment()) == 4)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    described = admin.describe_consumer_groups(["g"])["g"].result()
    assert (described.state.name, len(described.members)) == ("STABLE", 1)
    members.pop().close()
    broker.stop()

    broker = broker_process(mode=mode, settings=SETTINGS, data=broker.data)
    fill(broker.bootstrap, RECORDS)
    del seen[:]
    members.append(consumer(broker.bootstrap))
    wait_until(poll, lambda: len(seen) >= RECORDS)
    assert sorted(seen) == list(range(RECORDS, 2 * RECORDS))
    committed = members[0].committed([TopicPartition("events", partition) for partition in range(4)])
    assert [partition.offset for partition in committed] == [RECORDS // 4] * 4
    members.pop().close()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert [group.group_id for group in admin.list_consumer_groups().result().valid] == ["g"]
    admin.delete_consumer_groups(["g"])["g"].result()
    assert admin.list_consumer_groups().result().valid == []


@MODES
@pytest.mark.filterwarnings("ignore:(read|open)_text is deprecated:DeprecationWarning")  # by kafka-python, at import
def test_kafka_python(broker_process, mode) -> None:
    """kafka-python: a member reads everything and commits; the next member continues from there."""
    from kafka import KafkaConsumer, TopicPartition

    broker = broker_process(mode=mode, settings=SETTINGS)
    fill(broker.bootstrap)
    seen = []

    def consumer():
        made = KafkaConsumer(
            "events",
            bootstrap_servers=broker.bootstrap,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            session_timeout_ms=6_000,
        )
        # 3.0.12 may never learn that it has joined, if it joins twice or while nobody polls
        assert made.partitions_for_topic("events")
        return made

    def poll():
        for member in members:
            for records in member.poll(500).values():
                seen.extend(int(record.value) for record in records)

    members = [consumer()]
    wait_until(poll, lambda: len(members[0].assignment()) == 4 and len(set(seen)) == RECORDS)
    members[0].commit()
    assert members[0].committed(TopicPartition("events", 0)) == RECORDS // 4
    members[0].close()
    members[:] = [consumer()]
    fill(broker.bootstrap, RECORDS)
    del seen[:]
    wait_until(poll, lambda: len(seen) >= RECORDS)
    assert sorted(seen) == list(range(RECORDS, 2 * RECORDS))
    members[0].close()


@MODES
def test_aiokafka(broker_process, mode) -> None:
    """aiokafka: two members in one event loop share the partitions, and the remaining one gets all of them."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    broker = broker_process(mode=mode, settings=SETTINGS)
    fill(broker.bootstrap)

    async def main() -> None:
        def consumer():
            return AIOKafkaConsumer(
                "events",
                bootstrap_servers=broker.bootstrap,
                group_id="g",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                heartbeat_interval_ms=200,
                session_timeout_ms=6_000,
            )

        seen = []

        async def poll(members, done):
            async with asyncio.timeout(SECONDS_MAX):
                while not done():
                    for member in members:
                        for records in (await member.getmany(timeout_ms=50)).values():
                            seen.extend(int(record.value) for record in records)

        one, two = consumer(), consumer()
        await asyncio.gather(one.start(), two.start())
        both = [one, two]
        shared = lambda: [len(member.assignment()) for member in both] == [2, 2]  # noqa: E731 - read once, below
        await poll(both, lambda: shared() and len(set(seen)) == RECORDS)
        await one.commit()
        await two.commit()
        await two.stop()
        await poll([one], lambda: len(one.assignment()) == 4)
        committed = [await one.committed(TopicPartition("events", partition)) for partition in range(4)]
        assert committed == [RECORDS // 4] * 4
        await one.stop()

    asyncio.run(main())
