"""Fault rules on the page: counts and held requests, within bounds."""

import json
import threading
from pathlib import Path

import pytest

from pipeline_broker.dashboard import faults_view
from pipeline_broker.faults.files import FaultyFiles
from stages.request import Request
from tests.apis.groups.group_desk import GroupDesk
from tests.dashboard.board import Board
from tests.files.memory_file_system import MemoryFileSystem

PRODUCE = b"\0\0" + bytes(20)
NOW_NS = 5_000_000_000


class Origin:
    """The part of a connection that a held request needs."""

    index, peer, session = 7, "10.0.0.1", None

    def complete(self, request, result):
        request.result = result


class FaultyDesk(GroupDesk):
    """A broker with files that support fault rules."""

    fault_files = FaultyFiles(MemoryFileSystem())


@pytest.fixture
def board():
    found = Board(desk=FaultyDesk())
    found.desk.now_ms = 1_000
    return found


def shown(board):
    return faults_view.faults(board.desk.broker, NOW_NS)


def test_reading_creates_no_faults(board):
    found = shown(board)

    assert found == {"takes_files": True, "can_crash": False, "count": 0, "held": 0, "rules": []}
    assert not board.desk.broker.has_faults
    assert not shown(Board())["takes_files"]


def test_a_rule_has_its_counts_and_held_requests(board):
    faults = board.desk.broker.faults
    pausing = faults.when("Produce", topic="t", every=2).pause("response_order")
    delaying = faults.when("Fetch", p=0.5, seed=3).delay(1)
    pausing.matched, pausing.hits = 4, 2
    request = Request(Origin(), 0, PRODUCE, NOW_NS - 3_200_000_000)
    faults.held.hold_answer(request, "answer", 1_000, [], [pausing.number])
    faults.held.hold_answer(Request(Origin(), 1, PRODUCE, NOW_NS), "answer", 1_250, [delaying.number], [])
    faults.held.hold_queue(pausing.number, lambda: None)
    first, second = shown(board)["rules"]

    assert (first["about"], first["chosen"], first["effect"]) == (
        "Produce topic=t",
        "every=2",
        "pause at response order",
    )
    assert (first["hits"], first["matched"], first["holds"], first["queues"]) == (2, 4, 2, 1)
    assert first["requests"] == [
        {"connection": 7, "peer": "10.0.0.1", "api": "Produce", "since_ms": 3_200, "due_in_ms": None}
    ]
    assert (first["can_hold"], first["deterministic"], first["origin"]) == (True, True, "Python")
    assert (second["requests"][0]["due_in_ms"], second["can_hold"], second["chosen"]) == (250, False, "p=0.5 seed=3")
    faults.release(pausing.number)
    assert [rule["holds"] for rule in shown(board)["rules"]] == [0, 1]
    assert request.result == "answer"


def test_held_commits_and_file_operations_are_shown(board):
    broker = board.desk.broker
    rule = broker.faults.disk_when("sync", path="*").pause()
    broker.faults.disk.hold_commits(rule.number)
    file = broker.ports.fault_files.open(Path("/data/x"), create=True)
    thread = threading.Thread(target=file.sync_data)
    thread.start()
    try:
        while not (found := shown(board)["rules"][0])["files"]:
            assert thread.is_alive()
        assert (found["holds_commits"], found["can_hold"], found["holds"]) == (True, True, 1)
    finally:
        broker.faults.release(rule.number)
        thread.join(20)
    assert (shown(board)["rules"][0]["holds_commits"], shown(board)["rules"][0]["files"]) == (False, 0)


def test_rules_texts_and_held_requests_are_bounded(board):
    faults = board.desk.broker.faults
    rules = [faults.when("Produce", client_id="x" * 5_000).drop() for _ in range(faults_view.RULES_SHOWN_MAX + 1)]
    for number in range(faults_view.HELD_SHOWN_MAX + 5):
        faults.held.hold_answer(Request(Origin(), number, PRODUCE, 0), "answer", 0, [], [rules[0].number])
    found = shown(board)

    assert (found["count"], len(found["rules"])) == (len(rules), faults_view.RULES_SHOWN_MAX)
    assert max(len(rule["about"]) for rule in found["rules"]) == faults_view.TEXT_MAX
    assert (found["rules"][0]["holds"], len(found["rules"][0]["requests"])) == (25, faults_view.HELD_SHOWN_MAX)
    assert len(json.dumps(found)) < 1_000_000


def test_every_choice_makes_a_rule(board):
    names = faults_view.choices()
    faults = board.desk.broker.faults
    for api in names["apis"]:
        faults.when(api, nth=1).drop()
    for error in names["errors"]:
        faults.when("Produce", nth=1).error(error)
    for stage in names["stages"]:
        faults.when("Produce", nth=1).pause(stage)
    for operation in names["operations"]:
        for error in names["system_errors"]:
            faults.disk_when(operation, nth=1).error(error)

    assert faults.rules[0].condition.api == names["apis"][0]


def test_rules_are_made_and_removed_over_http(board):
    async def scenario(board):
        status, made = await board.change("/api/faults/add", {"arguments": ["api=Produce", "topic=t", "drop"]})
        assert (status, made["number"], made["origin"]) == (200, 1, "dashboard")
        assert (await board.get("/api/faults"))["rules"][0]["rule"] == "Produce topic=t: drop the answer"
        refused = await board.change("/api/faults/add", {"arguments": ["api=Prduce", "drop"]})
        assert refused == (409, {"error": "unknown API 'Prduce'; did you mean Produce?"})
        assert (await board.change("/api/faults/release", {"number": 9}))[0] == 409
        assert (await board.change("/api/faults/add", [1]))[0] == 400
        assert await board.change("/api/faults/rebalance", {"group": "absent"}) == (
            409,
            {"error": "the group 'absent' does not exist or has no members"},
        )
        assert await board.change("/api/faults/remove", {"number": 1}) == (200, {})
        assert await board.change("/api/faults/clear", {}) == (200, {"removed": 0})

    board.run(scenario)


def test_foreign_sites_cannot_add_rules(board):
    """As for all changes: no Origin, a foreign one, or a body that is not JSON."""

    async def scenario(board):
        body = json.dumps({"arguments": ["api=Produce", "drop"]}).encode()
        own, kind = f"Origin: http://{board.authority}", "Content-Type: application/json"
        for headers, status in (
            ((kind,), 403),
            (("Origin: http://evil.test", kind), 403),
            ((own,), 415),
            ((own, "Content-Type: text/plain"), 415),
        ):
            assert (await board.exchange("POST", "/api/faults/add", *headers, body=body))[0] == status
        assert not board.desk.broker.has_faults

    board.run(scenario)
