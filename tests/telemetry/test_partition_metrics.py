"""Metrics of partitions are read from the logs, for a bounded number of partitions."""

import attrs
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipeline_broker.base.steps import finished
from pipeline_broker.broker.leadership import NO_BROKER
from pipeline_broker.telemetry.exposition import render
from pipeline_broker.telemetry.partition_metrics import PARTITIONS_MAX, partition_families

COUNTED = ("activebroker", "fencedbroker", "activecontroller", "offlinepartitions")


@attrs.frozen
class Log:
    partition: int
    log_start_offset: int = 2
    high_watermark: int = 9
    size_bytes: int = 700


@attrs.frozen
class Brokers:
    """The first member is the controller."""

    broker_id: int = 5
    members: tuple[int, ...] = (5,)
    down: tuple[int, ...] = ()

    def is_there(self, node_id):
        return node_id not in self.down

    def offline_partitions(self):
        return 4 * len(self.down)

    def controller_id(self):
        return self.members[0] if self.is_there(self.members[0]) else NO_BROKER


def scrape(topics, brokers=Brokers(), *, can_write=True):
    """Return values by name and labels, of topics with the given numbers of partitions."""
    logs = {name: [Log(number) for number in range(count)] for name, count in topics.items()}
    families = partition_families(
        list(topics), lambda name: logs.get(name, ()), brokers, partitions_of_all=9, can_write=can_write
    )
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(finished(render(families)).decode())
        for sample in family.samples
    }


def test_a_partition_shows_its_offsets_its_size_and_its_leader():
    found = scrape({"b": 1, "a": 2})
    assert (found["kafka_topic_partitions", "a"], found["kafka_topic_partitions", "b"]) == (2, 1)
    assert found["kafka_topic_partition_current_offset", "a", "1"] == found["kafka_log_log_logendoffset", "a", "1"] == 9
    assert (
        found["kafka_topic_partition_oldest_offset", "b", "0"] == found["kafka_log_log_logstartoffset", "b", "0"] == 2
    )
    assert found["kafka_log_log_size", "b", "0"] == 700
    assert found["kafka_topic_partition_leader", "a", "0"] == 5
    assert found["kafka_server_replicamanager_partitioncount",] == 3
    assert found["kafka_controller_kafkacontroller_globaltopiccount",] == 2
    assert found["pipeline_broker_partitions_left_out",] == 0


BROKER_COUNTS = ("kafka_brokers", *(f"kafka_controller_kafkacontroller_{name}count" for name in COUNTED))


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        (Brokers(), (1, 1, 0, 1, 0)),
        (Brokers(1, (1, 2, 3)), (3, 3, 0, 1, 0)),
        (Brokers(2, (1, 2, 3)), (3, 3, 0, 0, 0)),
        (Brokers(1, (1, 2, 3), down=(2,)), (2, 2, 1, 1, 4)),
        (Brokers(3, (1, 2, 3), down=(1,)), (2, 2, 1, 0, 4)),
    ],
    ids=["alone", "controller", "another broker", "a broker is down", "the controller is down"],
)
def test_the_brokers_of_a_cluster_are_counted_with_those_that_are_down(brokers, expected):
    found = scrape({"a": 1}, brokers)
    assert tuple(found[name,] for name in BROKER_COUNTS) == expected


def test_the_partitions_of_a_scrape_are_bounded():
    found = scrape({"c": 2, "a": PARTITIONS_MAX - 1, "b": 2, "d": 1})
    assert {key[1] for key in found if key[0] == "kafka_topic_partitions"} == {"a"}
    assert sum(key[0] == "kafka_log_log_size" for key in found) == PARTITIONS_MAX - 1
    assert found["pipeline_broker_partitions_left_out",] == 5
    assert found["kafka_server_replicamanager_leadercount",] == PARTITIONS_MAX + 4


@pytest.mark.parametrize(("can_write", "offline"), [(True, 0), (False, 1)])
def test_a_disk_that_cannot_be_written_is_an_offline_directory(can_write, offline):
    found = scrape({"a": 3}, can_write=can_write)
    assert found["kafka_log_logmanager_offlinelogdirectorycount",] == offline
    assert found["kafka_server_replicamanager_offlinereplicacount",] == 3 * offline


def test_a_deleted_topic_has_no_partitions_left():
    families = partition_families(["gone"], lambda _: (), Brokers(), partitions_of_all=0, can_write=True)
    assert "kafka_server_replicamanager_partitioncount 0" in finished(render(families)).decode()
