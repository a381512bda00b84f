"""The dashboard over loopback: every address and its refusals, live streams, the second broker, the token.

Longer than most files: one board serves the tests of all routes.
"""

import json
import socket
from urllib.parse import quote

import pytest
import trio
import trio.testing

from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.dashboard.administration import QUESTIONS
from pipeline_broker.dashboard.beside import BadAddressError, Beside
from pipeline_broker.dashboard.options import DashboardOptions
from pipeline_broker.dashboard.routes import CHANGES, PAGES
from pipeline_broker.dashboard.service import check_options
from pipeline_broker.node.errors import StartError
from pipeline_broker.node.observers import Observers
from pipeline_broker.node.options import _dashboard
from stages.mode import PIPELINED
from tests.dashboard.board import Board

STREAMS = ("/events/pipeline", "/events/requests", "/events/topics/t")
ANSWERED = (
    *sorted(PAGES),
    "/topics/t",
    "/static/app.js",
    "/api/broker",
    "/api/brokers",
    "/api/topics",
    "/api/topics/t",
    "/api/topics/t/records",
    "/api/topics/t/groups",
    "/api/groups",
    "/api/group?group=g",
    "/api/configuration",
    "/api/connections",
    "/api/store",
    "/api/faults",
    "/api/faults/choices",
    *(f"/api/{name}" for name in QUESTIONS),
)


@pytest.fixture
def board():
    found = Board()
    found.produce(*[(b"k%d" % number, b'{"number": %d}' % number, (("name", b"x"),)) for number in range(8)])
    found.produce((None, None, ()), partition=1)
    found.commit("g", 3)
    return found


def test_every_address_answers_and_refuses_foreign_sites(board):
    async def scenario(board):
        for target in (*ANSWERED, *STREAMS, "/events/beside", *CHANGES, "/nowhere"):
            method = "POST" if target in CHANGES else "GET"
            if target in ANSWERED:
                assert (await board.exchange("GET", target))[0] == 200, target
            for host, headers in (("evil.test", ()), (None, ("Origin: http://evil.test",)), (None, ("Origin: null",))):
                assert (await board.exchange(method, target, *headers, host=host))[0] == 403, target
            is_page = target in PAGES or target == "/topics/t"
            if target in ANSWERED:
                status = (await board.exchange("GET", target, "Sec-Fetch-Site: cross-site"))[0]
                assert status == (200 if is_page else 403), target

    board.run(scenario)


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/nowhere", 404),
        ("GET", "/static/checksums.json", 404),
        ("GET", "/static/..%2fservice.py", 404),
        ("GET", "/api/topics/absent", 404),
        ("GET", "/api/topics/absent/records", 404),
        ("GET", "/api/topics/absent/groups", 404),
        ("GET", "/events/topics/absent", 404),
        ("GET", "/api/topics/t/records?partition=9", 404),
        ("GET", "/api/topics/t/records?offset=x", 400),
        ("GET", "/api/topics/t/records?json=%3Dx", 400),
        ("GET", "/api/group?group=absent", 404),
        ("GET", "/api/group/offsets", 405),
        ("GET", "/api/faults/add", 405),
        ("GET", "/api/faults/list", 404),
        ("GET", "/api/changes/produce", 405),
        ("POST", "/api/changes/format-disk", 403),
        ("HEAD", "/", 200),
        ("DELETE", "/api/topics/t", 403),
        ("GET", "/events/beside", 404),
    ],
)
def test_unknown_addresses_have_their_status(board, method, target, status):
    assert board.run(lambda board: board.exchange(method, target))[0] == status


def test_a_refusal_is_a_page_for_browsers_with_escaped_input(board):
    async def scenario(board):
        target = f"/api/topics/t/records?json={quote('a><b>')}"
        status, headers, body = await board.exchange("GET", target, "Accept: text/html,*/*;q=0.8")
        assert (status, headers["content-type"]) == (400, "text/html; charset=utf-8")
        assert (b"needs a number, not &#x27;&lt;b&gt;&#x27;" in body, b"<b>" in body) == (True, False)
        assert json.loads((await board.exchange("GET", target, "Accept: */*"))[2])["error"].endswith(
            "needs a number, not '<b>'"
        )
        for target in ("/nowhere", "/topics/a/b"):
            status, _, body = await board.exchange("GET", target, "Accept: text/html")
            assert (status, b"<h1>Not Found</h1>" in body) == (404, True)
        status, headers, _ = await board.exchange("GET", "/", "Accept: text/html")
        assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")

    board.run(scenario)


def test_records_are_found_and_filtered_page_by_page(board):
    async def scenario(board):
        page = await board.get("/api/topics/t/records?from=earliest&partition=0&limit=5")
        assert [record["key"]["text"] for record in page["records"]] == ["k0", "k1", "k2", "k3", "k4"]
        assert (page["positions"], page["at_end"]) == ({"0": 5}, False)
        rest = await board.get("/api/topics/t/records?partition=0&positions=0:5")
        assert [record["offset"] for record in rest["records"]] == [5, 6, 7]
        found = await board.get(f"/api/topics/t/records?from=earliest&json={quote('number=6')}&header=name")
        assert [record["offset"] for record in found["records"]] == [6]
        assert (found["examined"], found["at_end"]) == (9, True)

    board.run(scenario)


def test_records_on_disk_are_read(board):
    board.desk.archive_all()
    again = Board(desk=board.desk.restart())

    page = again.run(lambda board: board.get("/api/topics/t/records?from=earliest"))

    assert len(page["records"]) == 9


def test_an_unreadable_log_is_reported(board, monkeypatch):
    def fail(*arguments, **named):
        raise OSError("the disk failed")

    monkeypatch.setattr("pipeline_broker.log.partition.partition_log.PartitionLog.read", fail)
    status, _, body = board.run(lambda board: board.exchange("GET", "/api/topics/t/records"))

    assert (status, json.loads(body)) == (503, {"error": "the log cannot be read: the disk failed"})


def test_following_a_topic_shows_new_records_and_ends_with_the_topic(board, monkeypatch):
    monkeypatch.setattr("pipeline_broker.dashboard.tail.POLL_SECONDS", 0.01)

    async def scenario(board):
        async with board.watching("/events/topics/t?key=new") as stream:
            assert (await stream.next())[0] == "begin"
            board.produce((b"old", b"1", ()), (b"new", b"2", ()))
            name, page = await stream.next()
            assert (name, [record["key"]["text"] for record in page["records"]]) == ("records", ["new"])
            board.desk.broker.topics._visible.pop("t")
            assert (await stream.next())[0] == "end"

    board.run(scenario)


def test_a_viewer_of_a_fast_topic_receives_the_number_of_skipped_records(board, monkeypatch):
    monkeypatch.setattr("pipeline_broker.dashboard.tail.POLL_SECONDS", 0.01)
    monkeypatch.setattr("pipeline_broker.dashboard.tail.BEHIND_MAX", 4)

    async def scenario(board):
        async with board.watching("/events/topics/t?partition=0") as stream:
            assert (await stream.next())[1] == {"positions": {"0": 8}}
            board.produce(*[(b"%d" % number, b"", ()) for number in range(10)])
            page = (await stream.next())[1]
            assert (page["missed"], [record["offset"] for record in page["records"]]) == (6, [14, 15, 16, 17])

    board.run(scenario)


def test_a_reset_is_durable_when_it_is_answered(board):
    async def scenario(board):
        wish = {"group": "g", "topic": "t", "partition": 0, "to": "latest"}
        assert await board.change("/api/group/offsets", wish) == (200, {"offsets": {"0": 8}})
        assert (await board.get("/api/group?group=g"))["offsets"][0]["committed"] == 8
        assert (await board.change("/api/group/offsets", {**wish, "group": "absent"}))[0] == 409
        assert (await board.change("/api/group/offsets", [1]))[0] == 400
        own = f"Origin: http://{board.authority}"
        assert (await board.exchange("POST", "/api/group/offsets", own, body=b"{}"))[0] == 415
        answered = await board.exchange("POST", "/api/group/offsets", own, "Content-Type: application/json", body=b"{")
        assert answered[0] == 400

    board.run(scenario)


def test_the_request_path_is_observed_only_with_viewers(board, monkeypatch, request_ended):
    monkeypatch.setattr("pipeline_broker.dashboard.viewers.BEAT_SECONDS", 0.05)

    async def scenario(board):
        assert board.observed == []
        async with (
            board.watching("/events/pipeline") as stream,
            board.watching("/events/requests") as other,
        ):
            await stream.next()
            await other.next()  # a viewer of the page with names arrives
            (watched,) = board.observed
            watched.request_ended(request_ended(connection=3))
            found, requests = None, None
            while not found or not found["apis"]:
                _, found = await stream.next()
            while not requests or not requests["requests"]:
                _, requests = await other.next()
            assert (found["apis"][0]["api"], found["lanes"][0]["connection"]) == ("Produce", 3)
            (request,) = requests["requests"]
            assert (request["api"], request["from"]) == ("Produce", "10.0.0.1:50003")
        while board.observed[-1] is not None:
            await trio.sleep(0.01)
        assert board.observed == [watched, None]

    board.run(scenario)


def test_a_viewer_that_does_not_read_is_dropped_and_another_continues(board, monkeypatch):
    monkeypatch.setattr("pipeline_broker.dashboard.viewers.BEAT_SECONDS", 0.05)
    monkeypatch.setattr("pipeline_broker.web.http_server.EVENT_SECONDS", 0.2)
    monkeypatch.setattr("pipeline_broker.web.http_server.SEND_BUFFER_BYTES", 4096)
    events = {"pipeline": b"event: pipeline\ndata: 1" + b" " * 100_000 + b"\n\n"}

    def render(kinds):
        del kinds
        yield
        return events

    monkeypatch.setattr(board.dashboard.request_path.viewers, "_render", render)

    async def scenario(board):
        reluctant = board.watching("/events/pipeline", receive_bytes=4096)
        async with reluctant, board.watching("/events/pipeline") as stream:
            while len(board.dashboard.request_path.viewers) < 2:
                await trio.testing.wait_all_tasks_blocked()
            while len(board.dashboard.request_path.viewers) == 2:
                assert await stream.next()
            assert await stream.next() == ("pipeline", 1)

    board.run(scenario)


def test_the_second_broker_is_shown_and_its_absence_is_an_event(board, monkeypatch):
    monkeypatch.setattr("pipeline_broker.dashboard.viewers.BEAT_SECONDS", 0.02)
    monkeypatch.setattr("pipeline_broker.dashboard.beside.RETRY_SECONDS", 0.02)

    async def scenario(other):
        first = Board(beside=Beside("127.0.0.1", other.port))
        async with first.dashboard.serving(DashboardOptions(0)) as link:
            first.port = int(link.split(":")[2].strip("/"))
            async with first.watching("/events/beside") as stream:
                assert (await stream.next())[0] == "history"
                name, shown = await stream.next()
                assert (name, shown["broker"]["mode"]) == ("pipeline", "pipelined")
        first = Board(beside=Beside("127.0.0.1", other.port, "wrong"))
        other.dashboard._access = type(other.dashboard._access)(host="127.0.0.1", port=other.port, token="right")
        async with first.dashboard.serving(DashboardOptions(0)) as link:
            first.port = int(link.split(":")[2].strip("/"))
            async with first.watching("/events/beside") as stream:
                assert await stream.next() == ("absent", {"address": other.authority, "reason": "it answered 401"})

    board.run(scenario)


def test_an_absent_second_broker_is_retried(board, monkeypatch):
    monkeypatch.setattr("pipeline_broker.dashboard.beside.RETRY_SECONDS", 0.02)

    async def scenario(first):
        async with first.watching("/events/beside") as stream:
            for _ in range(2):
                assert (await stream.next())[0] == "absent"

    with socket.socket() as silent:  # reserves the port without listening
        silent.bind(("127.0.0.1", 0))
        Board(desk=board.desk, beside=Beside(*silent.getsockname())).run(scenario)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("127.0.0.1:8081", Beside("127.0.0.1", 8081)),
        ("http://[::1]:8081/?token=abc", Beside("::1", 8081, "abc")),
        ("localhost", None),
        ("https://x:1", None),
        ("x:99999", None),
        ("file:///etc/passwd", None),
        ("", None),
    ],
)
def test_the_address_of_the_second_broker_is_host_and_port_or_a_link(text, expected):
    if expected is not None:
        assert Beside.parse(text) == expected
        return
    with pytest.raises(BadAddressError):
        Beside.parse(text)
    with pytest.raises(UnavailableError):
        check_options(DashboardOptions(0, beside=text))


@pytest.mark.parametrize(
    "settings", [("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",)]
)
def test_a_broker_with_authentication_needs_the_token(settings):
    async def scenario(board):
        token = board.link.partition("?token=")[2]
        assert len(token) > 40
        assert (await board.exchange("GET", "/api/topics"))[0] == 401
        status, headers, _ = await board.exchange("GET", f"/groups?token={token}")
        assert (status, headers["location"]) == (303, "/groups")
        assert (await board.exchange("GET", "/api/topics", f"Authorization: Bearer {token}"))[0] == 200

    Board("authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer").run(scenario)


def test_a_public_address_needs_the_token(board):
    async def scenario(board):
        return board.link, (await board.exchange("GET", "/"))[0]

    link, status = board.run(scenario, host="0.0.0.0")

    assert "?token=" in link
    assert status == 401


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8080", DashboardOptions(8080)),
        ("0", DashboardOptions(0)),
        ("0.0.0.0:1", DashboardOptions(1, "0.0.0.0")),
        ("[::1]:9", DashboardOptions(9, "::1")),
        ("x", None),
        (":1", None),
        ("70000", None),
        ("1:", None),
        ("-1", None),
    ],
)
def test_the_option_is_a_port_or_host_and_port(text, expected):
    if expected is None:
        with pytest.raises(ValueError, match="is not a PORT or HOST:PORT"):
            DashboardOptions.parse(text)
    else:
        assert DashboardOptions.parse(text) == expected


def test_the_observers_serve_the_dashboard_and_print_its_link(board, capsys, tmp_path):
    observers = Observers(PIPELINED, None, None, tmp_path / "log", dashboard=DashboardOptions(0))

    async def main():
        async with observers.observing(board.server, board.desk.broker):
            board.port = int(capsys.readouterr().err.rpartition(":")[2].strip("/\n"))
            async with board.watching("/events/pipeline") as stream:
                await stream.next()
                assert observers.timeline is not None
            while observers.timeline is not None:
                await trio.sleep(0.01)

    trio.run(main)


def test_an_unavailable_dashboard_is_one_line_before_the_broker_starts(tmp_path, board):
    with pytest.raises(UnavailableError, match="is not the address of a dashboard"):
        Observers(PIPELINED, None, None, tmp_path / "log", dashboard=DashboardOptions(0, beside="x"))
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        observers = Observers(PIPELINED, None, None, tmp_path / "log", dashboard=DashboardOptions(port))

        async def main():
            async with observers.observing(board.server, board.desk.broker):
                raise AssertionError("it serves on a port that is taken")

        with pytest.raises(UnavailableError, match="cannot serve the dashboard"):
            trio.run(main)


@pytest.mark.parametrize(
    "options",
    [
        {"dashboard": "x"},
        {"dashboard_beside": "127.0.0.1:1"},
        {"dashboard_read_only": True},
        {"dashboard_principal": "User:a"},
        {"dashboard": "8080", "dashboard_principal": "alice"},
    ],
)
def test_contradictory_options_are_refused_at_the_start(options):
    absent = {"dashboard": None, "dashboard_beside": None, "dashboard_read_only": False, "dashboard_principal": None}
    with pytest.raises(StartError, match="--dashboard"):
        _dashboard(absent | options)


def test_every_page_has_the_obstacle_of_all_writes_and_its_remedy(board):
    assert board.run(lambda board: board.get("/api/broker"))["obstacle"] is None
    board.desk.journal.room.obstacle = OSError(28, "no space")
    obstacle = board.run(lambda board: board.get("/api/broker"))["obstacle"]
    assert "no space" in obstacle
    assert "delete other files on the file system of the data directory" in obstacle


def test_a_dashboard_has_the_start_options_of_its_broker(board):
    about = board.run(lambda board: board.get("/api/broker"))

    assert (about["mode"], about["flush"], about["in_flight_max"], about["commit"]) == (
        "pipelined",
        "always",
        64,
        "group",
    )
    assert about["limited_to"] is None
