"""`consume` while some partitions have no leader."""

import threading
import time

import pytest

from pipeline_broker import EmbeddedCluster
from tests.commands.cluster.conftest import CommandLine
from tests.embedded.clusters import group_on

SECONDS_MAX = 30
PARTITIONS = range(4)


@pytest.fixture
def cluster():
    with EmbeddedCluster(brokers=2) as cluster:
        cluster.create_topic("t", partitions=len(PARTITIONS))
        for number in PARTITIONS:
            cluster.produce("t", f"{number}", partition=number)
        yield cluster


@pytest.fixture(params=[False, True], ids=["alone", "in a group"])
def options(cluster, request):
    return ("--group", group_on(cluster, cluster.brokers[0])) if request.param else ()


def divided(cluster):
    """Stop broker 2, and return the served and the other partitions."""
    served = [number for number in PARTITIONS if cluster.leader_of("t", number) is cluster.brokers[0]]
    cluster.stop(cluster.brokers[1])
    return served, [number for number in PARTITIONS if number not in served]


def without_leader(others):
    return f"{', '.join(f't-{number}' for number in others)} have no leader (LEADER_NOT_AVAILABLE)"


def test_the_served_partitions_are_printed_before_an_error_names_the_others(cluster, options):
    served, others = divided(cluster)
    call = CommandLine(cluster.bootstrap_servers)
    found = call("consume", "t", "--timeout", "1s", *options, code=1)
    assert sorted(found.lines) == [str(number) for number in served]
    assert found.err == f"Error: nothing could be read for 1 s: {without_leader(others)}\n"
    if options:
        assert cluster.offsets(options[1]) == {("t", number): 1 for number in served}


def test_a_reader_that_follows_warns_once_and_reads_the_others_once_they_have_a_leader(cluster, options):
    _, others = divided(cluster)
    first, second = cluster.brokers

    def start():
        deadline = time.monotonic() + SECONDS_MAX
        while not first.requests("Fetch") and time.monotonic() < deadline:
            time.sleep(0.01)
        cluster.start(second)

    starter = threading.Thread(target=start)
    starter.start()
    found = CommandLine(cluster.bootstrap_servers)("consume", "t", "--follow", "-c", len(PARTITIONS), *options)
    starter.join()
    assert sorted(found.lines) == [str(number) for number in PARTITIONS]
    assert found.err == f"Warning: {without_leader(others)}; the other partitions are read\n"
    if options:
        assert cluster.offsets(options[1]) == {("t", number): 1 for number in PARTITIONS}


def test_without_any_leader_the_error_names_all_partitions(cluster):
    cluster.create_topic("one", partitions=1)
    leader = cluster.leader_of("one", 0)
    if leader is cluster.brokers[0]:
        cluster.create_topic("two", partitions=1)
        assert cluster.leader_of("two", 0) is cluster.brokers[1]
    cluster.stop(cluster.brokers[1])
    topic = "two" if leader is cluster.brokers[0] else "one"
    found = CommandLine(cluster.bootstrap_servers)("consume", topic, "--timeout", "1s", code=1)
    assert (found.out, found.err) == ("", f"Error: {topic}-0 has no leader (LEADER_NOT_AVAILABLE)\n")
