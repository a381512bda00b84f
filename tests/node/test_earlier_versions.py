"""The data directory of an earlier version opens with all its data."""

import sys
import tarfile
from pathlib import Path

import pytest

from pipeline_broker import EmbeddedBroker
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest
from pipeline_broker.wire.messages.cluster.update_features import UpdateFeaturesRequest
from tests.bad_input.raw_client import RawClient
from tests.kafka_tools import kafka_tool

WRITTEN_BY_0_1 = Path(__file__).parent / "data_directory_of_0_1.tar.xz"
"""Archive and journal of a broker of version 0.1.0 that was stopped, started again and killed.

confluent-kafka wrote 900 records to the two partitions of `orders` in turn, 200 of them in one transaction, and one
more in an aborted transaction. It wrote three records with the same key to the compacted topic `bills`, and committed
offsets of the group `readers`.
"""
FOR_EVER = {
    "log.retention.ms": "-1",
    "offsets.retention.minutes": str(2**31 - 1),
    "transactional.id.expiration.ms": str(2**31 - 1),
}
"""Defaults of these settings would delete the records, which are older."""


@pytest.fixture
def data(tmp_path):
    with tarfile.open(WRITTEN_BY_0_1) as packed:
        packed.extractall(tmp_path, **({"filter": "data"} if sys.version_info >= (3, 12) else {}))
    return tmp_path


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_a_directory_of_version_0_1_opens_with_all_acknowledged_records(data, mode):
    for run in range(2):  # the second broker reads the records of the first
        with EmbeddedBroker(mode=mode, data=data, settings=FOR_EVER) as broker:
            assert broker.topics() == {"orders": 2, "bills": 1}
            for partition in range(2):
                found = broker.records("orders", partition=partition)
                expected = [(f"k{number}".encode(), number) for number in range(partition, 900, 2)]
                assert [(each.key, int(each.value.split()[1])) for each in found[:450]] == expected
                assert found[0].headers == (("n", str(partition).encode()),)
                assert len(found) == 450 + run
            assert [each.value for each in broker.records("bills")] == [b"bill 600", b"bill 800", b"bill 900"]
            assert broker.offsets("readers") == {("orders", 0): 150, ("orders", 1): 250}
            for partition in range(2):
                broker.produce("orders", f"value {900 + run}", partition=partition)


def test_features_of_a_directory_of_version_0_1_keep_their_levels_until_they_are_raised(data):
    """It has no records of features, like those of every release that followed Kafka 4.3."""
    for before in (30, 33):
        with (
            EmbeddedBroker(data=data, settings=FOR_EVER) as broker,
            RawClient(int(broker.bootstrap_servers.rpartition(":")[2])) as client,
        ):
            answer = client.ask(ApiVersionsRequest("x", "1"), 4)
            assert {it.name: it.max_version_level for it in answer.finalized_features}["metadata.version"] == before
            raised = UpdateFeaturesRequest.FeatureUpdateKey("metadata.version", 33)
            assert client.ask(UpdateFeaturesRequest(1000, [raised]), 2).error_code == 0


def test_the_tool_of_kafka_raises_the_features_of_a_directory_of_version_0_1_to_a_release(data, tmp_path):
    run = kafka_tool(tmp_path)
    with EmbeddedBroker(data=data, settings=FOR_EVER) as broker:
        command = "FeatureCommand", "--bootstrap-server", broker.bootstrap_servers
        before = run(*command, "describe").stdout
        for name, level in (("metadata.version", "4.3-IV0"), ("share.version", "1"), ("streams.version", "0")):
            assert finalized(before, name) == level, before
        run(*command, "upgrade", "--release-version", "4.4")
    with EmbeddedBroker(data=data, settings=FOR_EVER) as broker:
        command = "FeatureCommand", "--bootstrap-server", broker.bootstrap_servers
        after = run(*command, "describe").stdout
        for name, level in (("metadata.version", "4.4-IV2"), ("share.version", "2"), ("streams.version", "1")):
            assert finalized(after, name) == level, after
        run(*command, "upgrade", "--release-version", "4.4")  # changes nothing


def finalized(described, name):
    (line,) = (line for line in described.splitlines() if line.split()[1] == name)
    return line.partition("FinalizedVersionLevel: ")[2].split()[0]
