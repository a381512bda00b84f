"""Groups as plain values, as all views of them show them."""

import json

import pytest
from click.testing import CliRunner

from pipeline_broker.base.steps import finished
from pipeline_broker.broker.group_views import ASSIGNMENT_BYTES_MAX, find_group, group_offsets, list_groups
from pipeline_broker.cli import main
from pipeline_broker.dashboard.groups_view import group as dashboard_group
from pipeline_broker.embedded.embedded_broker import EmbeddedBroker
from pipeline_broker.state.groups.group import GroupType
from pipeline_broker.wire.messages.groups.join_group import JoinGroupRequest
from pipeline_broker.wire.messages.groups.sync_group import SyncGroupRequest
from tests.dashboard.board import Board
from tests.wire.test_consumer_protocol import written

WAIT_SECONDS = 20
REBALANCE_MS = 5_000


@pytest.fixture
def board():
    found = Board()
    for _ in range(10):
        found.produce((b"k", b"v", ()))
    return found


def assign(board, assignment, protocol_type="consumer"):
    """Return a classic group with one member, to which the leader assigns these bytes."""
    desk = board.desk
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol("range", b"s")]
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=60_000,
        rebalance_timeout_ms=60_000,
        protocol_type=protocol_type,
        protocols=protocols,
    )
    desk.decide(request, 3)
    desk.now_ms += REBALANCE_MS
    desk.broker.advance(desk.now_ms)
    (member,) = find_group(desk.broker, "g")[1]
    given = [SyncGroupRequest.SyncGroupRequestAssignment(member.member_id, assignment)]
    answer = desk.ask(SyncGroupRequest(group_id="g", generation_id=1, member_id=member.member_id, assignments=given), 3)
    assert answer.error_code == 0
    (member,) = find_group(desk.broker, "g")[1]
    return member.assignment


def test_a_partition_without_a_committed_offset_has_an_unknown_lag(board):
    assert assign(board, written([("t", [1, 0])], 1)) == {"t": (0, 1)}
    board.commit("other", 4)
    views = [(view.partition, view.committed, view.end, view.lag) for view in group_offsets(board.desk.broker, "g")]
    assert views == [(0, None, 10, None), (1, None, 0, None)]
    assert [view.lag for view in group_offsets(board.desk.broker, "other")] == [6]


def test_state_and_kind_are_those_of_kafkas_tools(board):
    assign(board, b"")
    board.commit("other", 4)
    shown = [(view.group_id, view.group_type, view.state, view.is_empty) for view in list_groups(board.desk.broker)]
    assert shown == [("g", GroupType.CLASSIC, "Stable", False), ("other", GroupType.CLASSIC, "Empty", True)]


def test_missing_partitions_are_assigned_and_have_no_offsets(board):
    assert assign(board, written([("t", [7]), ("nowhere", [0])], 1)) == {"nowhere": (0,), "t": (7,)}
    assert list(group_offsets(board.desk.broker, "g")) == []


@pytest.mark.parametrize(
    ("assignment", "protocol_type"),
    [
        (b"\xff\xff\x00\x00", "consumer"),
        (b"\x00", "consumer"),
        (written([("t", [0])], 1)[:-5], "consumer"),
        (written([("t", [0])], 1), "connect"),
        (written([("t", [0])], 1) + bytes(ASSIGNMENT_BYTES_MAX), "consumer"),
    ],
    ids=["a version below 0", "too short for one", "cut short", "other kind of members", "longer than is read"],
)
def test_an_undecoded_assignment_is_unknown_and_not_an_error(board, assignment, protocol_type):
    assert assign(board, assignment, protocol_type) is None
    assert finished(dashboard_group(board.desk.broker, "g"))["members"][0]["assignment"] is None


def test_the_embedded_broker_the_dashboard_and_the_command_show_the_same_lag():
    """Of ten records two are read and eight are deleted."""
    import confluent_kafka as ck
    import confluent_kafka.admin as cka

    with EmbeddedBroker() as broker:
        broker.create_topic("t")
        for number in range(10):
            broker.produce("t", str(number))
        place = {"bootstrap.servers": broker.bootstrap_servers}
        consumer = ck.Consumer({**place, "group.id": "g", "enable.auto.commit": False})
        consumer.commit(offsets=[ck.TopicPartition("t", 0, 2)], asynchronous=False)
        consumer.close()
        admin = cka.AdminClient(place)
        deleted = admin.delete_records([ck.TopicPartition("t", 0, 8)])
        assert [future.result(WAIT_SECONDS).low_watermark for future in deleted.values()] == [8]

        command = ["groups", "describe", "-b", broker.bootstrap_servers, "g", "--json"]
        (told,) = json.loads(CliRunner().invoke(main, command).stdout)
        shown = broker.on_loop(lambda running: finished(dashboard_group(running.broker, "g")))
        lags = broker.lag("g")
    assert (lags, shown["lag"], told["lag"]) == ({("t", 0): 8}, 8, 8)
