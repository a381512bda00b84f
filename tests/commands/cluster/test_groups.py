"""`pipeline-broker groups` against a broker with groups of unmodified clients."""

import contextlib
import threading
import time

import confluent_kafka
import pytest

from pipeline_broker.wire.messages.configs.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from pipeline_broker.wire.messages.groups.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)
from pipeline_broker.wire.messages.share.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.apis.wire_client import WireClient

MEMBER = "AAECAwQFBgcICQoLDA0ODw"
GROUP_SETTINGS = 32
"""Kafka's number of this kind of resource."""
STREAMS_BEATS_MAX = 200
NO_TASKS = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}


@contextlib.contextmanager
def consuming(broker, topic, group, **settings):
    """Run a consumer of confluent-kafka with assigned partitions."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": group, "client.id": "reader", **settings}
    )
    consumer.subscribe([topic])
    try:
        for _ in range(100):
            consumer.poll(0.1)
            if consumer.assignment():
                break
        yield consumer
    finally:
        consumer.close()


def streams_topology(source, repartition, changelog):
    """Two subtopologies; the second has state."""
    made = StreamsGroupHeartbeatRequest
    first = made.Subtopology("0", [source], repartition_sink_topics=[repartition])
    second = made.Subtopology(
        "1",
        repartition_source_topics=[made.TopicInfo(repartition, 2)],
        state_changelog_topics=[made.TopicInfo(changelog)],
    )
    return made.Topology(1, [first, second])


def set_group(client, group, settings):
    """Set settings of a group; gives the error code."""
    made = IncrementalAlterConfigsRequest
    altered = [made.AlterableConfig(name, 0, value) for name, value in settings.items()]
    request = made([made.AlterConfigsResource(GROUP_SETTINGS, group, altered)])
    return client.ask(request, IncrementalAlterConfigsResponse, 1).responses[0].error_code


def fill(broker, topic, count):
    broker.create_topic(topic, partitions=2)
    for number in range(count):
        broker.produce(topic, str(number), partition=number % 2, timestamp=1000 + number)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_members_with_their_partitions_and_lag(call_mode, broker, name, protocol):
    fill(broker, name, 7)
    with consuming(broker, name, name, **{"group.protocol": protocol, "auto.offset.reset": "earliest"}) as consumer:
        consumer.commit(offsets=[confluent_kafka.TopicPartition(name, 0, 1)], asynchronous=False)
        (group,) = call_mode("groups", "describe", name, "--json").json
        (listed,) = call_mode("groups", "list", name, "--state", "stable", "--type", protocol, "--json").json
        text = call_mode("groups", "describe", name).lines
        refused = call_mode("groups", "delete", name, code=1)
        reset = call_mode("groups", "reset-offsets", name, "--to", "earliest", "--execute", code=1)
        planned = call_mode("groups", "reset-offsets", name, "--to", "earliest")
    (member,) = group["members"]
    assert (group["type"], group["state"], listed["type"], listed["state"]) == (protocol, "Stable", protocol, "Stable")
    assert (listed["members"], listed["lag"]) == (1, group["lag"])
    assert (member["client_id"], member["host"]) == ("reader", "127.0.0.1")
    assert member["assignment"] == [{"topic": name, "partitions": [0, 1]}]
    rows = [(row["partition"], row["committed"], row["end"], row["lag"], row["member"]) for row in group["offsets"]]
    assert rows == [(0, 1, 4, 3, member["member"]), (1, None, 3, None, member["member"])]
    assert text[0].startswith(f"{name}: {protocol} group, Stable, 1 member, coordinator 1, assignor ")
    assert text[-1] == f"member {member['member']} (reader at 127.0.0.1): {name} 0,1"
    assert "has members: stop its consumers first" in refused.err
    obstacle = f"group {name} is Stable with 1 member: stop its consumers first\n"
    assert reset.err == f"Error: {obstacle}"
    assert planned.err.startswith(f"--execute would be refused now: {obstacle}")
    assert planned.lines[1].split() == [name, "0", "1", "0"]


@pytest.mark.parametrize(
    ("arguments", "plan"),
    [
        (["--to", "earliest"], {0: 0, 1: 0}),
        (["--to", "latest"], {0: 4, 1: 3}),
        (["--to", "2"], {0: 2, 1: 2}),
        (["--to", "99"], {0: 4, 1: 3}),
        (["--to", "-1"], {0: 3, 1: 2}),
        (["--to", "@0000000001003"], {0: 2, 1: 1}),
        (["--shift", "-1"], {0: 0, 1: 2}),
        (["--shift", "99"], {0: 4, 1: 3}),
        (["--to", "earliest", "--topic", "TOPIC:1"], {1: 0}),
        (["--to", "earliest", "--topic", "TOPIC"], {0: 0, 1: 0}),
        (["--to", "earliest", "--topic", "TOPIC:0", "--topic", "TOPIC:1"], {0: 0, 1: 0}),
    ],
)
def test_a_reset_is_shown_and_executed_on_request(call, one_broker, name, arguments, plan):
    fill(one_broker, name, 7)
    arguments = [it.replace("TOPIC", name) for it in arguments]
    call("consume", name, "-g", name)
    call("groups", "reset-offsets", name, "--topic", f"{name}:0", "--to", "1", "--execute")
    before = one_broker.offsets(name)
    shown = call("groups", "reset-offsets", name, *arguments)
    assert shown.err == "nothing was changed: give --execute to reset the offsets\n"
    assert shown.lines[0].split() == ["TOPIC", "PARTITION", "FROM", "TO"]
    assert [line.split()[1:] for line in shown.lines[1:]] == [
        [str(it), str(before[name, it]), str(to)] for it, to in plan.items()
    ]
    assert one_broker.offsets(name) == before == {(name, 0): 1, (name, 1): 3}
    done = call("groups", "reset-offsets", name, *arguments, "--execute", "--json").json
    assert (done["group"], done["executed"]) == (name, True)
    assert one_broker.offsets(name) == {**before, **{(name, it): to for it, to in plan.items()}}


def test_a_reset_creates_an_unknown_group(call, one_broker, name):
    fill(one_broker, name, 7)
    call("groups", "reset-offsets", name, "--topic", name, "--to", "2", "--execute")
    assert one_broker.offsets(name) == {(name, 0): 2, (name, 1): 2}
    assert sorted(call("consume", name, "-g", name).lines) == ["4", "5", "6"]


def test_a_group_shares_a_topic_with_an_unmodified_consumer(call, one_broker, name):
    fill(one_broker, name, 0)
    done, enough, lines, read = threading.Event(), threading.Event(), set(), set()

    def poll(consumer):
        while not done.is_set():
            message = consumer.poll(0.05)
            if message is not None:
                read.add(str(message.partition()))
            if lines and read | lines == {"0", "1"}:
                enough.set()

    def write():
        one_broker.wait_assigned(name, members=2)
        for partition in (0, 0, 1, 1):
            one_broker.produce(name, "v", partition=partition)

    settings = {
        "auto.offset.reset": "earliest",
        "partition.assignment.strategy": "range",
        "heartbeat.interval.ms": 100,
        "auto.commit.interval.ms": 100,
    }
    with consuming(one_broker, name, name, **settings) as consumer:
        threads = [
            threading.Thread(target=poll, args=[consumer], daemon=True),
            threading.Thread(target=write, daemon=True),
        ]
        for thread in threads:
            thread.start()
        printed = call("consume", name, "-g", name, "--follow", "-c", 2, "-f", r"%p\n").lines
        lines.update(printed)
        assert enough.wait(10), "the other one reads the other partition"
        # if the group rebalances before our commit, the other member reads that partition again
        one_broker.wait_committed(name, {(name, 0): 2, (name, 1): 2})
        done.set()
        for thread in threads:
            thread.join(10)
    assert printed in (["0", "0"], ["1", "1"])


def test_a_group_is_deleted(call, one_broker, name):
    fill(one_broker, name, 1)
    call("consume", name, "-g", name)
    heading, line = call("groups", "list", name, "--state", "empty").lines
    assert heading.split() == ["GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR", "MEMBERS", "LAG"]
    assert line.split() == [name, "classic", "consumer", "Empty", "1", "0", "0"]
    assert call("groups", "delete", name).out == f"deleted {name}\n"
    assert call("groups", "list", name, "--json").json == []


def test_a_reset_of_an_unknown_group_says_that_it_creates_the_group(call, one_broker, name):
    fill(one_broker, name, 1)
    reset = ("groups", "reset-offsets", name, "--topic", name, "--to", "earliest")
    note = f"group {name} does not exist: --execute would create it\n"
    assert note in call(*reset).err
    assert note not in call(*reset, "--execute").err
    assert note not in call(*reset).err, "it exists now"


def test_a_share_group_is_described_and_reset_without_members(call, one_broker, name):
    fill(one_broker, name, 4)
    host, port = one_broker.bootstrap_servers.split(":")
    with WireClient(host, int(port)) as client:
        joining = ShareGroupHeartbeatRequest(name, MEMBER, 0, None, [name])
        joined = client.ask(joining, ShareGroupHeartbeatResponse, 1)
        assert joined.error_code == 0
        (group,) = call("groups", "describe", name, "--json").json
        refused = call("groups", "reset-offsets", name, "--topic", name, "--to", "latest", "--execute", code=1)
        left = client.ask(ShareGroupHeartbeatRequest(name, MEMBER, -1), ShareGroupHeartbeatResponse, 1)
        assert left.error_code == 0
    assert (group["type"], group["state"], group["assignor"]) == ("share", "Stable", "simple")
    (member,) = group["members"]
    assert (member["member"], member["client_id"]) == (MEMBER, "wire-client")
    assert f"group {name} is Stable with 1 member: stop its consumers first" in refused.err
    call("groups", "reset-offsets", name, "--topic", name, "--to", "1", "--execute")
    (described,) = call("groups", "describe", name, "--json").json
    assert {row["partition"]: row["committed"] for row in described["offsets"]} == {0: 1, 1: 1}
    assert call("groups", "reset-offsets", name, "--shift", "-1").lines[-1].split() == [name, "1", "1", "0"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["describe", "nobody"], 1, "unknown group 'nobody': see `groups list`"),
        (["delete", "nobody"], 1, "(GROUP_ID_NOT_FOUND)"),
        (
            ["reset-offsets", "nobody", "--to", "earliest"],
            1,
            "nobody does not exist: name its topics with --topic",
        ),
        (["reset-offsets", "nobody", "--to", "earliest", "--topic", "nowhere"], 1, "unknown topic 'nowhere'"),
        (["reset-offsets", "nobody"], 2, "give either --to or --shift"),
        (["reset-offsets", "nobody", "--to", "1", "--shift", "1"], 2, "give either --to or --shift"),
        (["reset-offsets", "g", "--to", "x"], 2, "--to: 'x' is not a position"),
        (["reset-offsets", "nobody", "--to", "1", "--topic", "a:x"], 2, "'a:x' is not of the form"),
        (["describe"], 2, "Missing argument 'GROUP...'"),
    ],
)
def test_an_error_is_one_line(call, arguments, code, message):
    called = call("groups", *arguments, code=code)
    assert called.err.startswith("Error: ")
    assert message in called.err
    assert (called.err.count("\n"), called.out) == (1, "")


def test_a_streams_group_is_described_with_all_tasks_and_reset_without_its_repartition_topics(call, one_broker, name):
    fill(one_broker, name, 4)
    one_broker.create_topic(f"{name}-middle", partitions=2)
    host, port = one_broker.bootstrap_servers.split(":")
    topology = streams_topology(name, f"{name}-middle", f"{name}-changelog")
    settings = {"streams.num.standby.replicas": "1", "streams.initial.rebalance.delay.ms": "0"}
    with WireClient(host, int(port)) as client:
        assert set_group(client, name, settings) == 0
        epochs, tasks = {"m": 0, "n": 0}, {"m": NO_TASKS, "n": NO_TASKS}
        for _ in range(STREAMS_BEATS_MAX):
            for member, epoch in epochs.items():
                joining = {"topology": topology, "rebalance_timeout_ms": 60_000} if not epoch else {}
                request = StreamsGroupHeartbeatRequest(
                    name, member, epoch, process_id=member, **joining, **tasks[member]
                )
                answer = client.ask(request, StreamsGroupHeartbeatResponse, 1)
                assert answer.error_code == 0, answer.error_message
                epochs[member] = answer.member_epoch
                if answer.active_tasks is not None:
                    tasks[member] = {kind: getattr(answer, kind) for kind in NO_TASKS}
            if all(each["standby_tasks"] for each in tasks.values()):
                break
            time.sleep(0.05)  # the broker creates the changelog topic
        (group,) = call("groups", "describe", name, "--json").json
        text = call("groups", "describe", name).lines
        for member in epochs:
            leaving = StreamsGroupHeartbeatRequest(name, member, -1)
            assert client.ask(leaving, StreamsGroupHeartbeatResponse, 1).error_code == 0
    assert group["internal_topics"] == {"repartition": [f"{name}-middle"], "changelog": [f"{name}-changelog"]}
    assert sorted(task for each in group["members"] for task in each["standby"]) == ["1_0", "1_1"]
    assert all(each["warmup"] == [] for each in group["members"])
    assert sum("; standby tasks 1_" in line for line in text) == 2
    for topic in name, f"{name}-middle":
        call("groups", "reset-offsets", name, "--topic", topic, "--to", "latest", "--execute")
    reset = call("groups", "reset-offsets", name, "--to", "earliest", "--json")
    assert [(row["topic"], row["partition"]) for row in reset.json["offsets"]] == [(name, 0), (name, 1)]
    assert f"To begin anew, also delete {name}-changelog" in reset.err
