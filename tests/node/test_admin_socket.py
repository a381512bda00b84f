"""Commands to a running broker: permissions, errors and limits."""

import contextlib
import functools
import json
import logging
import os
import re
import select
import socket
import stat
import threading

import pytest
import trio

from pipeline_broker import EmbeddedBroker
from pipeline_broker.node import admin_socket as admin
from pipeline_broker.node import unix_socket
from pipeline_broker.node.admin_socket import ADMIN_NAME, NoBrokerError, ask, serve_admin
from pipeline_broker.node.operator_commands import COMMAND_BYTES_MAX, CommandFailedError

WAIT_SECONDS = 20.0


async def echo(**arguments):
    return {"given": arguments}


async def refuse(topic=None):
    raise CommandFailedError(f"unknown topic {topic!r}")


async def wait_forever():
    await trio.sleep_forever()


class Fatal(Exception):
    pass


async def stumble(words="one\nline", inside_group=False):
    """Fail with an unexpected error."""
    error = LookupError(words)
    raise ExceptionGroup("a nursery's", [error]) if inside_group else error


async def type_error():
    return len(5)


async def unspeakable():
    return {"changed": object()}


async def die():
    raise Fatal("the disk failed")


async def die_inside_a_group():
    raise ExceptionGroup("a nursery's", [Fatal("the disk failed")])


COMMANDS = {
    "echo": echo,
    "refuse": refuse,
    "wait": wait_forever,
    "stumble": stumble,
    "type error": type_error,
    "unspeakable": unspeakable,
    "die": die,
    "die inside a group": die_inside_a_group,
}


def with_admin(directory, work):
    """Return the result of `work`, which runs in a thread while commands are served."""

    async def main():
        with trio.fail_after(WAIT_SECONDS):
            async with trio.open_nursery() as nursery:
                await nursery.start(functools.partial(serve_admin, fatal=(Fatal,)), directory, COMMANDS)
                result = await trio.to_thread.run_sync(work)
                nursery.cancel_scope.cancel()
        return result

    return trio.run(main)


async def guarded(main):
    with trio.fail_after(WAIT_SECONDS):
        await main()


def refused(directory, command, **arguments):
    """Return the error of a refused command."""
    with pytest.raises(CommandFailedError) as raised:
        ask(directory, command, **arguments)
    return str(raised.value)


def raw(directory, data):
    """Return the answer to these bytes."""
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client,
        unix_socket.short_path(directory, admin.ADMIN_NAME) as path,
    ):
        client.connect(path)
        client.sendall(data)
        client.settimeout(WAIT_SECONDS)
        with client.makefile("rb") as answers:
            return answers.read()


def test_a_command_gets_its_arguments(tmp_path):
    assert with_admin(tmp_path, lambda: ask(tmp_path, "echo", topic="t")) == {"given": {"topic": "t"}}


def test_a_refused_command_returns_its_line(tmp_path):
    assert with_admin(tmp_path, lambda: refused(tmp_path, "refuse", topic="t")) == "unknown topic 't'"


DEEP = b"[" * 60_000
NO_COMMANDS = [b"", b"{}", b"[]", b"nonsense", b'{"command": "no such"}', b'{"command": []}', b"\xff\xfe", DEEP]


@pytest.mark.parametrize("line", NO_COMMANDS, ids=lambda line: repr(line[:30]))
def test_an_invalid_command_gets_an_error(tmp_path, line):
    answer = json.loads(with_admin(tmp_path, lambda: raw(tmp_path, line + b"\n")))
    assert answer.keys() == {"error"}
    assert re.match(
        "the command is not JSON|a command is a JSON object|unknown command 'no such'; use ", answer["error"]
    )


def test_invalid_arguments_get_an_error(tmp_path):
    reason = with_admin(tmp_path, lambda: refused(tmp_path, "refuse", other=1))
    assert reason == "refuse: got an unexpected keyword argument 'other'"


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        ("stumble", {}, "LookupError: one line"),
        ("stumble", {"inside_group": True}, "LookupError: one line"),
        ("type error", {}, "TypeError: object of type 'int' has no len()"),
        ("unspeakable", {}, "TypeError: Object of type object is not JSON serializable"),
    ],
)
def test_an_unexpected_error_is_one_line_and_logged_and_the_next_command_works(
    tmp_path, caplog, command, arguments, words
):
    def work():
        return refused(tmp_path, command, **arguments), ask(tmp_path, "echo")

    line, following = with_admin(tmp_path, work)
    assert line == f"{command} failed unexpectedly: {words}. The broker continues; see its log"
    assert following == {"given": {}}
    (record,) = caplog.records
    assert (record.levelname, record.name) == ("ERROR", "pipeline_broker.node.operator_commands")
    assert record.exc_info is not None


@pytest.mark.parametrize("command", ["die", "die inside a group"])
def test_a_fatal_error_is_raised(tmp_path, command):
    def work():
        line = refused(tmp_path, command)
        trio.from_thread.run(trio.sleep_forever)  # until the error cancels it
        return line

    with pytest.raises(BaseExceptionGroup) as raised:
        with_admin(tmp_path, work)
    assert raised.group_contains(Fatal, match="the disk failed")


def test_a_broker_process_survives_an_unexpected_error_of_a_command(broker_process):
    """No command expects a list as the name of a topic."""
    broker = broker_process()
    line = refused(broker.data, "compact", topic=["t"])
    assert line.startswith("compact failed unexpectedly: TypeError: ")
    assert ask(broker.data, "compact") == {"changed": False}
    assert (
        "ERROR pipeline_broker.node.operator_commands: the command compact failed unexpectedly; the broker continues"
        in broker.stderr
    )
    assert "Traceback (most recent call last):" in broker.stderr


def test_an_embedded_broker_survives_an_unexpected_error_on_its_loop(tmp_path):
    """An embedded broker has no socket; the test serves commands on its loop."""
    with EmbeddedBroker() as broker:
        with pytest.raises(TypeError):
            broker.on_loop(lambda _: len(5))
        token = broker.on_loop(lambda _: trio.lowlevel.current_trio_token())

        async def serve():
            async with trio.open_nursery() as nursery:
                await nursery.start(serve_admin, tmp_path, COMMANDS)
                line = await trio.to_thread.run_sync(refused, tmp_path, "stumble")
                nursery.cancel_scope.cancel()
            return line

        assert "stumble failed unexpectedly" in trio.from_thread.run(serve, trio_token=token)
        broker.produce("t", "still here")
        assert [record.value for record in broker.records("t")] == [b"still here"]


def test_an_endless_line_is_rejected(tmp_path):
    assert with_admin(tmp_path, lambda: raw(tmp_path, b"x" * (COMMAND_BYTES_MAX + 1))) == b""


def test_a_silent_client_is_disconnected(tmp_path, monkeypatch):
    monkeypatch.setattr(admin, "LINE_SECONDS", 0.01)
    assert with_admin(tmp_path, lambda: raw(tmp_path, b'{"command"')) == b""


def test_the_number_of_clients_is_limited(tmp_path):
    """Clients are accepted in the order of their connections."""

    def work():
        with contextlib.ExitStack() as stack:
            path = stack.enter_context(unix_socket.short_path(tmp_path, admin.ADMIN_NAME))
            for _ in range(admin.CONNECTIONS_MAX):
                client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                client.connect(path)
                client.sendall(b'{"command": "wait"}\n')
            try:
                return raw(tmp_path, b'{"command": "echo"}\n')
            except (ConnectionResetError, BrokenPipeError):
                return b""

    assert with_admin(tmp_path, work) == b""


def test_clients_that_disconnect_early_free_their_slots(tmp_path, caplog):
    left = trio.Event()

    async def late():
        await left.wait()
        return {}

    async def main():
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_admin, tmp_path, {"late": late, "echo": echo})
            with unix_socket.short_path(tmp_path, admin.ADMIN_NAME) as path:
                for _ in range(admin.CONNECTIONS_MAX):
                    async with await trio.open_unix_socket(path) as client:
                        await client.send_all(b'{"command": "late"}\n')
            left.set()
            while len(caplog.records) < admin.CONNECTIONS_MAX:
                await trio.sleep(0.001)
            assert await trio.to_thread.run_sync(ask, tmp_path, "echo") == {"given": {}}
            nursery.cancel_scope.cancel()

    with caplog.at_level(logging.INFO, admin.__name__):
        trio.run(guarded, main)
    assert {record.getMessage() for record in caplog.records} == {
        "the client closed its connection before the answer to its command"
    }


def test_a_client_that_does_not_read_its_answer_is_disconnected(tmp_path, monkeypatch):
    words = "x" * 4_000_000

    async def much():
        monkeypatch.setattr(admin, "LINE_SECONDS", 0.01)  # its command is received already
        await trio.lowlevel.checkpoint()
        return {"words": words}

    async def main():
        async with trio.open_nursery() as nursery:
            await nursery.start(serve_admin, tmp_path, {"much": much})
            with unix_socket.short_path(tmp_path, admin.ADMIN_NAME) as path:
                client = await trio.open_unix_socket(path)
            await client.send_all(b'{"command": "much"}\n')
            poll = select.poll()
            poll.register(client.socket.fileno(), 0)  # tells of the other end's close only
            while not poll.poll(0):
                await trio.sleep(0.001)
            taken = b"".join([data async for data in client])
            assert 0 < len(taken) < len(words)
            await client.aclose()
            nursery.cancel_scope.cancel()

    trio.run(guarded, main)


def test_only_the_owner_may_connect_and_the_socket_is_removed_at_the_end(tmp_path):
    mode = with_admin(tmp_path, lambda: (tmp_path / ADMIN_NAME).stat().st_mode)
    assert stat.S_IMODE(mode) == 0o600
    assert not (tmp_path / ADMIN_NAME).exists()


def test_another_thread_sees_no_other_umask(tmp_path, monkeypatch):
    """A directory that it makes at this moment would be closed to all."""
    monkeypatch.setattr(os, "umask", None)
    assert with_admin(tmp_path, lambda: ask(tmp_path, "echo")) == {"given": {}}


def test_the_socket_of_a_dead_broker_is_replaced(tmp_path):
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead,
        unix_socket.short_path(tmp_path, admin.ADMIN_NAME) as path,
    ):
        dead.bind(path)
    with pytest.raises(NoBrokerError):
        ask(tmp_path, "echo")
    assert with_admin(tmp_path, lambda: ask(tmp_path, "echo")) == {"given": {}}


def test_a_long_directory_name_works(tmp_path):
    directory = tmp_path / ("d" * 100) / ("e" * 100)
    directory.mkdir(parents=True)
    assert with_admin(directory, lambda: ask(directory, "echo")) == {"given": {}}


def test_commands_work_without_proc_self_fd(tmp_path, monkeypatch):
    monkeypatch.setattr(unix_socket, "DESCRIPTORS", tmp_path / "none")
    assert with_admin(tmp_path, lambda: ask(tmp_path, "echo", topic="t")) == {"given": {"topic": "t"}}
    assert not (tmp_path / ADMIN_NAME).exists()


def test_the_umask_is_restored_when_the_socket_cannot_be_bound(tmp_path, monkeypatch, caplog):
    """Otherwise no user could enter directories that the broker creates later."""
    monkeypatch.setattr(unix_socket, "DESCRIPTORS", tmp_path / "none")
    directory = tmp_path / ("d" * 100) / ("e" * 100)
    directory.mkdir(parents=True)
    before = os.umask(0o027)
    try:
        trio.run(serve_admin, directory, COMMANDS)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert "cannot serve operator commands" in caplog.text


@pytest.mark.parametrize("answer", [b"", b'{"error": "there is no'])
def test_a_truncated_answer_is_an_error(tmp_path, answer):
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dying,
        unix_socket.short_path(tmp_path, admin.ADMIN_NAME) as path,
    ):
        dying.bind(path)
        dying.listen()

        def end():
            client, _ = dying.accept()
            with client:
                client.recv(admin.RECEIVE_BYTES)
                client.sendall(answer)

        broker = threading.Thread(target=end)
        broker.start()
        try:
            assert refused(tmp_path, "echo") == f"the broker on {tmp_path} ended before the command was complete"
        finally:
            broker.join()


def test_without_a_broker_a_command_fails(tmp_path):
    with pytest.raises(NoBrokerError, match="no broker runs on"):
        ask(tmp_path, "echo")
