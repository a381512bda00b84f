"""Views of the brokers of an embedded cluster, as each of them shows it."""

import time

from confluent_kafka.admin import AdminClient, NewTopic

from pipeline_broker.wire.messages.groups.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest, MetadataResponse
from tests.apis.wire_client import WireClient

SECONDS_MAX = 30.0


def metadata(broker, *topics):
    wanted = [MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
    with WireClient(*broker.addresses["PLAINTEXT"]) as client:
        return client.ask(MetadataRequest(wanted, allow_auto_topic_creation=False), MetadataResponse, 12)


def led_by(broker, topic, of=None):
    """Return the partitions that a broker shows as its own, or as those of another broker."""
    partitions = metadata(broker, topic).topics[0].partitions
    return {it.partition_index for it in partitions if it.leader_id == (of or broker).node_id}


def values(cluster, topic, **options):
    return sorted(record.value.decode() for record in cluster.records(topic, **options))


def group_on(cluster, broker):
    """Return a group whose coordinator is this broker."""
    with WireClient(*cluster.brokers[0].addresses["PLAINTEXT"]) as client:  # the first request creates the topic
        client.ask(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), FindCoordinatorResponse, 6)
    return next(name for name in map("group-{}".format, range(100)) if cluster.coordinator_of(name) is broker)


def create_replicated(cluster, topic, partitions, factor, configs=None):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    (created,) = admin.create_topics([NewTopic(topic, partitions, factor, config=configs or {})]).values()
    created.result(SECONDS_MAX)


def wait_until(is_so):
    end = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)
