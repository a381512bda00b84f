"""Groups of any client: two members share a topic, each message is read once, and offsets survive a restart."""

import pytest

from tests.clients.aiokafka_client import AioKafkaClient
from tests.clients.client import RESTARTS_BROKERS, Message, read, wait_until, write
from tests.clients.confluent_client import ConfluentClient
from tests.clients.conftest import SETTINGS
from tests.clients.kafka_python_client import KafkaPythonClient

pytestmark = pytest.mark.clients

PARTITIONS = 4


def poll_until(client, members, condition, what):
    """Poll all members until it holds; what they read."""
    messages = []

    def polled():
        messages.extend(client.poll_together(members))
        return condition(messages)

    wait_until(polled, what)
    return messages


def shared(members):
    """Whether the members own everything, each something and none what another has."""
    owned = [member.assignment() for member in members]
    return all(owned) and sorted(partition for parts in owned for partition in parts) == list(range(PARTITIONS))


def test_two_members_share_a_topic_and_one_takes_over(client, new_name):
    """Every message of a settled group is read once; after a member left, the other reads all that comes."""
    topic, group = new_name(), new_name()
    client.create_topic(topic, PARTITIONS)
    members = [client.consumer(topic, group=group) for _ in range(2)]
    try:
        poll_until(client, members, lambda _: shared(members), "sharing the partitions")
        sent = [Message(b"%d" % number, partition=number % PARTITIONS) for number in range(40)]
        write(client, topic, *sent)
        found = poll_until(client, members, lambda messages: len(messages) >= len(sent), "reading by two")
        assert sorted(message.value for message in found) == sorted(message.value for message in sent)
        for member in members:
            member.commit()

        members.pop().close()
        poll_until(client, members, lambda _: shared(members), "taking over")
        write(client, topic, *(Message(b"late", partition=partition) for partition in range(PARTITIONS)))

        found = poll_until(client, members, lambda messages: len(messages) >= PARTITIONS, "reading alone")
        assert [message.value for message in found] == [b"late"] * PARTITIONS
    finally:
        for member in members:
            member.close()


@RESTARTS_BROKERS
def test_committed_offsets_survive_a_restart(broker_process, mode, connect, new_name):
    """Each client's group goes on where it committed, on a broker started again over the same directory."""
    kinds = (ConfluentClient, KafkaPythonClient, AioKafkaClient)
    topic = new_name()
    broker = broker_process(mode=mode, settings=SETTINGS)
    for index, kind in enumerate(kinds):
        client = connect(kind, broker.bootstrap)
        if index == 0:
            client.create_topic(topic, 1)
        write(client, topic, Message(b"before"))
        consumer = client.consumer(topic, group=kind.name)
        assert [message.offset for message in read(consumer, index + 1)] == list(range(index + 1))
        consumer.commit()
        consumer.close()

    broker.stop()
    broker = broker_process(mode=mode, settings=SETTINGS, arguments=["--port", str(broker.port)])

    for index, kind in enumerate(kinds):
        consumer = connect(kind, broker.bootstrap).consumer(topic, group=kind.name)
        try:
            # the first has read one message and left two, the last has read all three
            left = len(kinds) - index - 1
            assert [message.offset for message in read(consumer, left)] == list(range(index + 1, len(kinds)))
        finally:
            consumer.close()
