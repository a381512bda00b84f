"""The control endpoint answers commands of clients with the token, and refuses all others."""

import contextlib
import functools
import json

import pytest
import trio

from pipeline_broker.base.byte_budget import ByteBudget
from pipeline_broker.node.control_endpoint import LIMITS, read_address, serve_control
from pipeline_broker.node.errors import StartError
from pipeline_broker.node.operator_commands import COMMAND_BYTES_MAX, CommandFailedError

EDGE_BYTES = 64 << 20
TOKEN = "0123456789abcdef"
WAIT_SECONDS = 20


class Fatal(Exception):
    pass


async def echo(**arguments):
    await trio.lowlevel.checkpoint()
    return {"given": arguments}


async def refuse(topic=None):
    await trio.lowlevel.checkpoint()
    raise CommandFailedError(f"unknown topic {topic!r}")


async def stumble():
    await trio.lowlevel.checkpoint()
    raise LookupError("one\nline")


async def die():
    await trio.lowlevel.checkpoint()
    raise ExceptionGroup("a nursery's", [Fatal("the disk failed")])


async def wait():
    await trio.sleep_forever()


COMMANDS = {"echo": echo, "refuse": refuse, "stumble": stumble, "die": die, "wait": wait}


def with_endpoint(scenario, host="127.0.0.1"):
    """Return the result of `scenario(port)`, run against an endpoint."""

    async def main():
        with trio.fail_after(WAIT_SECONDS):
            async with trio.open_nursery() as nursery:
                serving = functools.partial(serve_control, fatal=(Fatal,))
                url = await nursery.start(serving, host, 0, TOKEN, COMMANDS, ByteBudget(EDGE_BYTES))
                assert url.startswith(f"http://{host}:")
                result = await scenario(int(url.rpartition(":")[2]))
                nursery.cancel_scope.cancel()
        return result

    return trio.run(main)


async def exchange(port, body, *headers, line="POST / HTTP/1.1", host="localhost", token=TOKEN):
    """Send a request; return the status, the headers and the JSON of the answer."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    bearer = () if token is None else (f"Authorization: Bearer {token}",)
    lines = (line, *(() if host is None else (f"Host: {host}",)), *bearer, *headers, f"Content-Length: {len(body)}")
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all("\r\n".join((*lines, "", "")).encode() + body)
        received = b"".join([bytes(data) async for data in stream])
    head, _, text = received.partition(b"\r\n\r\n")
    status, *found = head.decode().split("\r\n")
    return int(status.split()[1]), dict(each.lower().split(": ", 1) for each in found), json.loads(text or b"null")


def status_of(body, *headers, **options):
    return with_endpoint(lambda port: exchange(port, body, *headers, **options))[0]


NO_COMMAND = 'a command is a JSON object such as {"command": "faults list"}'


def test_a_command_gets_its_arguments_and_its_result_is_json():
    status, headers, answer = with_endpoint(lambda port: exchange(port, {"command": "echo", "topic": "t"}))
    assert (status, answer) == (200, {"given": {"topic": "t"}})
    assert headers["content-type"] == "application/json; charset=utf-8"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"command": "refuse", "topic": "t"}, "unknown topic 't'"),
        ({"command": "refuse", "other": 1}, "refuse: got an unexpected keyword argument 'other'"),
        ({"command": "none"}, "unknown command 'none'; use one of echo, refuse, stumble, die, wait"),
        ([], NO_COMMAND),
        ({"command": 1}, NO_COMMAND),
        (b"", "the command is not JSON"),
        (b"\xff{", "the command is not JSON"),
        (b"[" * 60_000, "the command is not JSON"),
        (
            {"command": "stumble"},
            "stumble failed unexpectedly: LookupError: one line. The broker continues; see its log",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_refused_command_has_status_400_and_its_line(body, error):
    status, _, answer = with_endpoint(lambda port: exchange(port, body))
    assert (status, answer) == (400, {"error": error})


@pytest.mark.parametrize("token", [None, "", "wrong", f"{TOKEN}0", TOKEN[:-1]])
def test_a_client_without_the_token_learns_nothing_but_that(token):
    for line in ("POST / HTTP/1.1", "GET / HTTP/1.1", "POST /other HTTP/1.1"):
        status, headers, answer = with_endpoint(
            lambda port, line=line: exchange(port, {"command": "echo"}, line=line, token=token)
        )
        assert (status, headers["www-authenticate"]) == (401, "bearer")
        assert answer["error"].startswith("the token is missing or wrong")


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost", 200), ("127.0.0.1:9", 200), ("[::1]:80", 200), ("evil.test", 403), ("192.0.2.1", 403), (None, 400)],
)
def test_the_host_is_a_loopback_name(host, status):
    assert status_of({"command": "echo"}, host=host) == status


@pytest.mark.parametrize(
    "header", ["Origin: http://evil.test", "Origin: null", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site"]
)
def test_a_request_of_a_page_of_another_site_is_refused_even_with_the_token(header):
    assert status_of({"command": "echo"}, header) == 403


@pytest.mark.parametrize(
    ("line", "status"),
    [("GET / HTTP/1.1", 405), ("PUT / HTTP/1.1", 405), ("POST /x HTTP/1.1", 404), ("POST /%2f HTTP/1.1", 404)],
)
def test_every_other_request_gets_its_status(line, status):
    found, headers, _ = with_endpoint(lambda port: exchange(port, {"command": "echo"}, line=line))
    assert found == status
    assert headers.get("allow") == ("post" if status == 405 else None)


def test_a_body_that_is_too_large_is_refused():
    assert status_of(b" " * (COMMAND_BYTES_MAX + 1)) == 413


def test_a_fatal_error_of_a_command_is_raised():
    async def scenario(port):
        await exchange(port, {"command": "die"})
        await trio.sleep_forever()  # until the error cancels it

    with pytest.raises(BaseExceptionGroup) as raised:
        with_endpoint(scenario)
    assert raised.group_contains(Fatal, match="the disk failed")


def test_clients_that_wait_never_keep_others_out():
    async def scenario(port):
        body = b'{"command": "wait"}'
        head = f"POST / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(LIMITS.connections_max):
                stream = await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
                await stream.send_all(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            return await exchange(port, {"command": "echo"})

    assert with_endpoint(scenario)[0] == 200


@pytest.mark.parametrize(
    ("place", "address"),
    [
        ("0", ("127.0.0.1", 0)),
        ("127.0.0.2:8", ("127.0.0.2", 8)),
        ("[::1]:8", ("::1", 8)),
        ("localhost:8", ("localhost", 8)),
    ],
)
def test_an_address_is_a_port_or_a_loopback_host_with_a_port(place, address):
    assert read_address(place) == address


@pytest.mark.parametrize("place", ["0.0.0.0:8", "192.0.2.1:8", "[::]:8", "example.org:8"])
def test_an_address_that_other_machines_reach_is_refused(place):
    with pytest.raises(StartError, match=r"is not a loopback address\. Give the PORT alone$"):
        read_address(place)


def test_a_place_that_is_no_address_is_refused():
    with pytest.raises(StartError, match=r"^--control: 'x' is not a PORT or HOST:PORT$"):
        read_address("x")
