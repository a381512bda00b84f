"""An error in a route of the dashboard is a response and a log entry, and later requests are served."""

import json

import pytest

from pipeline_broker.dashboard import routes
from tests.dashboard.board import Board

PATHS = sorted(
    {*routes.EXACT, "/api/topics/t", "/api/topics/t/records", "/api/topics/t/groups", "/events/topics/t", "/api/acls"}
)
NAMES = {routes.find_route("GET", path).name for path in PATHS}


class InjectedError(Exception):
    pass


def failing(*arguments):
    raise InjectedError(*map(str, arguments))


def failing_in_steps(*arguments):
    yield
    failing(*arguments)


def test_every_view_and_handler_is_among_the_routes():
    dashboard = Board().dashboard
    changes = {route.name for route in routes.CHANGES.values()}
    assert {*dashboard._views, *dashboard._handlers} == NAMES | changes


@pytest.mark.parametrize("path", PATHS)
def test_a_route_that_fails_is_answered_and_the_next_one_served(path, caplog):
    async def scenario(board):
        dashboard, name = board.dashboard, routes.find_route("GET", path).name
        for fail in (failing, failing_in_steps) if name in dashboard._views else (failing,):
            (dashboard._views if name in dashboard._views else dashboard._handlers)[name] = fail
            status, _, body = await board.exchange("GET", path)
            assert (status, json.loads(body)) == (500, {"error": "the broker could not answer; its log says why"})
        assert (await board.exchange("GET", "/"))[0] == 200
        return caplog.text.count("InjectedError"), len(caplog.records)

    tracebacks, lines = Board().run(scenario)
    assert tracebacks >= 1
    assert lines <= 2


@pytest.mark.parametrize("path", sorted(routes.CHANGES))
def test_a_change_that_fails_is_answered(path, caplog):
    async def scenario(board):
        board.dashboard._handlers[routes.CHANGES[path].name] = failing
        return await board.change(path, {})

    assert Board().run(scenario)[0] == 500
    assert "InjectedError" in caplog.text
