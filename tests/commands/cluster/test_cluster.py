"""`pipeline-broker cluster` against a broker."""

from confluent_kafka.admin import AdminClient


def test_a_cluster_is_described_as_other_clients_see_it(call_mode, broker):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    seen = admin.describe_cluster().result(timeout=20)
    described = call_mode("cluster", "describe", "--json").json
    assert described["cluster_id"] == seen.cluster_id
    assert described["controller"] == seen.controller.id
    (node,) = seen.nodes
    (shown,) = described["brokers"]
    assert (shown["broker"], shown["host"], shown["port"], shown["rack"]) == (node.id, node.host, node.port, None)
    line, heading, row = call_mode("cluster", "describe").lines
    assert line == f"cluster {seen.cluster_id}: 1 broker, controller {node.id}"
    assert heading.split() == ["BROKER", "HOST", "PORT", "RACK", "LEADS"]
    assert row.split()[:3] == [str(node.id), node.host, str(node.port)]


def test_led_partitions_are_counted(call, name):
    (before,) = call("cluster", "describe", "--json").json["brokers"]
    call("topics", "create", name, "--partitions", 5)
    (after,) = call("cluster", "describe", "--json").json["brokers"]
    assert after["leads"] == before["leads"] + 5


def test_log_directories_are_shown_with_the_sizes_of_partitions(call, one_broker, name):
    one_broker.create_topic(name, partitions=2)
    one_broker.produce(name, "x" * 1000, partition=1)
    (directory,) = call("cluster", "log-dirs", "--broker", 1, "--topic", name, "--json").json
    sizes = {(row["topic"], row["partition"]): row["bytes"] for row in directory["partitions"]}
    assert sizes.keys() == {(name, 0), (name, 1)}
    assert sizes[name, 0] == 0
    assert 1000 < sizes[name, 1] < 1200
    assert directory["broker"] == 1
    lines = call("cluster", "log-dirs").lines
    assert lines[0].split() == ["BROKER", "DIRECTORY", "TOTAL-BYTES", "USABLE-BYTES"]
    assert any(line.split()[1:3] == [name, "1"] for line in lines)


def test_an_unknown_broker_or_topic_is_one_line(call):
    assert "unknown topic 'nowhere'" in call("cluster", "log-dirs", "--topic", "nowhere", code=1).err
    called = call("cluster", "log-dirs", "--broker", 9, code=1)
    assert called.err == "Error: unknown broker 9. Use one of 1\n"
