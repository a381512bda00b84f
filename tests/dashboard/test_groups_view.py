"""Groups of every type with their durable offsets, and resets that never touch a group with members."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.base.steps import THINGS_PER_STEP, finished
from pipeline_broker.dashboard.groups_view import (
    OffsetReset,
    group,
    groups,
    groups_of_topic,
    plan_reset,
    reset_request,
)
from pipeline_broker.dashboard.wishes import RequestError
from pipeline_broker.state.groups.coordinator import GroupCoordinator
from pipeline_broker.wire.messages.groups.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pipeline_broker.wire.messages.groups.delete_groups import DeleteGroupsRequest
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.offset_commit import OffsetCommitRequest
from tests.apis.desk import Desk
from tests.apis.share.share_desk import ShareDesk
from tests.dashboard.board import Board
from tests.drawn import drawn, measured


@pytest.fixture
def board():
    found = Board()
    for _ in range(10):
        found.produce((b"k", b"v", ()))
    found.commit("empty", 4)
    return found


def join_classic(board, group_id="classic"):
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"s")]
    board.desk.decide(
        JoinGroupRequest(group_id=group_id, session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols), 3
    )


def join_consumer(board, group_id="consumer"):
    request = ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id="m", rebalance_timeout_ms=1_000, topic_partitions=[], subscribed_topic_names=["t"]
    )
    assert board.desk.ask(request, 1).error_code == 0


def reset(board, **fields):
    wanted = OffsetReset(**{"group_id": "empty", "topic": "t", "partition": None, "to": "earliest"} | fields)
    broker = board.desk.broker
    offsets = {
        partition: found if isinstance(found, int) else found()
        for partition, found in plan_reset(broker, wanted).items()
    }
    (topic,) = board.desk.ask(reset_request(broker, wanted, offsets), 10).topics
    assert {each.error_code for each in topic.partitions} == {0}
    return {row["partition"]: row["committed"] for row in finished(group(broker, wanted.group_id))["offsets"]}


def test_a_broker_without_groups_has_an_empty_list():
    broker = Desk().broker

    assert finished(groups(broker)) == {"count": 0, "groups": []}
    assert finished(group(broker, "g")) is None
    with pytest.raises(RequestError, match="'g' does not exist"):
        plan_reset(broker, OffsetReset(group_id="g", topic="t", partition=None, to="latest"))


def test_groups_of_every_kind_are_shown_with_members_and_lag(board):
    join_classic(board)
    join_consumer(board)
    shown = {row["group"]: row for row in finished(groups(board.desk.broker))["groups"]}

    assert {name: (row["type"], row["members"], row["lag"], row["may_reset"]) for name, row in shown.items()} == {
        "classic": ("classic", 1, None, False),
        "consumer": ("consumer", 1, None, False),
        "empty": ("classic", 0, 6, True),
    }
    (member,) = finished(group(board.desk.broker, "consumer"))["members"]
    assert (member["member"], member["assignment"]) == ("m", {"t": (0, 1, 2, 3)})


def test_a_share_group_is_shown_and_cannot_be_reset():
    share = ShareDesk()
    share.begin()
    broker = share.desk.broker
    (row,) = finished(groups(broker))["groups"]

    assert (row["type"], row["members"], row["may_reset"], row["lag"]) == ("share", 1, False, 0)
    assert finished(group(broker, "g"))["members"][0]["assignment"] == {"t": (0,)}
    share.produce(3)
    share.fetch(0, [0])
    share.acknowledge(1, [(0, 1, [1])])
    share.produce(2)
    (row,) = finished(groups(broker))["groups"]
    (offset,) = finished(group(broker, "g"))["offsets"]
    assert (offset["committed"], offset["end"], offset["lag"], row["lag"]) == (2, 5, 3, 3)
    assert finished(groups_of_topic(broker, "t")) == {"groups": [{"group": "g", "partitions": 1, "lag": 3}]}
    with pytest.raises(RequestError, match="AlterShareGroupOffsets"):
        plan_reset(broker, OffsetReset(group_id="g", topic="t", partition=None, to="latest"))


def test_lag_is_the_end_minus_the_committed_offset(board):
    assert finished(group(board.desk.broker, "empty"))["offsets"] == [
        {"topic": "t", "partition": 0, "committed": 4, "end": 10, "lag": 6, "metadata": ""}
    ]
    board.produce((b"k", b"v", ()))
    assert finished(group(board.desk.broker, "empty"))["lag"] == 7


def test_the_groups_of_a_topic_are_those_that_committed_offsets_of_it(board):
    board.desk.create_topic("other")
    broker = board.desk.broker
    assert finished(groups_of_topic(broker, "t")) == {"groups": [{"group": "empty", "partitions": 1, "lag": 6}]}
    assert finished(groups_of_topic(broker, "other")) == {"groups": []}
    assert finished(groups_of_topic(broker, "absent")) is None


def test_a_step_reads_a_bounded_number_of_offsets(monkeypatch):
    """For one large group, and for many small ones."""
    monkeypatch.setattr("pipeline_broker.broker.group_views.FETCHED_AT_ONCE", 1)
    board, looks = Board("num.partitions=1000"), []
    board.desk.create_topic("wide")
    wanted = OffsetCommitRequest.OffsetCommitRequestPartition
    partitions = [wanted(partition_index=number, committed_offset=0) for number in range(1000)]
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name="wide", partitions=partitions)
    board.desk.ask(OffsetCommitRequest(group_id="large", topics=[topic]), 8)
    for number in range(50):
        board.commit(f"small {number}", 0)
    fetch = GroupCoordinator.fetch
    monkeypatch.setattr(GroupCoordinator, "fetch", lambda *wanted: looks.append(1) or fetch(*wanted))
    for view, seen in ((group(board.desk.broker, "large"), 1000), (groups(board.desk.broker), 1050)):
        steps, looks[:] = 0, []
        for _ in view:
            assert len(looks) - steps <= THINGS_PER_STEP
            steps = len(looks)
        assert len(looks) == seen


def test_a_group_can_be_deleted_between_two_steps(board):
    board.commit("a", 1)
    steps = groups(board.desk.broker)
    next(steps)
    board.desk.ask(DeleteGroupsRequest(["empty"]), 2)
    shown = finished(steps)
    assert [(row["group"], row["lag"], row["members"]) for row in shown["groups"]] == [("a", 9, 0), ("empty", None, 0)]


@pytest.mark.parametrize(
    ("fields", "offset"),
    [
        ({"to": "earliest"}, 0),
        ({"to": "latest"}, 10),
        ({"to": "offset", "value": 7}, 7),
        ({"to": "offset", "value": 99}, 10),
        ({"to": "time", "value": 0}, 0),
        ({"to": "time", "value": 2**62}, 10),
    ],
)
def test_a_reset_sets_the_offset_and_survives_a_restart(board, fields, offset):
    assert reset(board, partition=0, **fields) == {0: offset}
    again = board.desk.restart()
    assert finished(group(again.broker, "empty"))["offsets"][0]["committed"] == offset


def test_a_reset_finds_a_time_on_disk(board):
    board.desk.now_ms += 1_000
    board.produce((b"late", b"v", ()))
    board.desk.archive_all()
    again = board.desk.restart()

    assert reset(Board(desk=again), partition=0, to="time", value=again.now_ms + 1_000) == {0: 10}


def test_a_reset_without_a_partition_resets_all(board):
    assert reset(board, to="latest") == {0: 10, 1: 0, 2: 0, 3: 0}


@pytest.mark.parametrize("join", [join_classic, join_consumer])
def test_a_group_with_members_is_never_reset_even_if_they_join_in_between(board, join):
    reset = OffsetReset(group_id="empty", topic="t", partition=None, to="earliest")
    offsets = plan_reset(board.desk.broker, reset)
    join(board, "empty")

    with pytest.raises(RequestError, match="has members"):
        reset_request(board.desk.broker, reset, offsets)
    with pytest.raises(RequestError, match="has members"):
        plan_reset(board.desk.broker, reset)
    assert finished(group(board.desk.broker, "empty"))["offsets"][0]["committed"] == 4


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"group_id": "absent"}, "the group 'absent' does not exist"),
        ({"topic": "absent"}, "the topic 'absent' does not exist"),
        ({"partition": 4}, "no partition 4"),
    ],
)
def test_a_reset_of_an_unknown_group_topic_or_partition_is_refused(board, fields, reason):
    with pytest.raises(RequestError, match=reason):
        reset(board, **fields)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)


wish_values = json_values | st.sampled_from(["t", "time", "offset"])
bodies = st.fixed_dictionaries({}, optional=dict.fromkeys(("group", "topic", "partition", "to", "value"), wish_values))


numbers = st.integers(-1, 2) | st.integers(2**63 - 1, 2**63)
nearly_wishes = st.fixed_dictionaries(
    {
        "group": st.just("g"),
        "topic": st.sampled_from(["t", ""]),
        "to": st.sampled_from(["earliest", "latest", "offset", "time"]),
    },
    optional={"partition": st.none() | numbers, "value": numbers},
)


@measured(reset=0.02, refused=0.1)
@given(body=bodies | nearly_wishes)
def test_any_body_is_parsed_or_refused(body):
    try:
        reset = OffsetReset.from_json(body)
    except RequestError:
        drawn("refused")
        return
    drawn("reset")
    assert reset.topic
    assert reset.to in {"earliest", "latest", "offset", "time"}
    assert 0 <= reset.value < 2**63
    assert reset.partition is None or type(reset.partition) is int
