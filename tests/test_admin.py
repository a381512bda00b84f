"""Commands to a running broker: who may give them, and what comes of those that make no sense."""

import contextlib
import json
import socket
import stat

import pytest
import trio

from pipeline_broker import admin
from pipeline_broker.admin import ADMIN_NAME, CommandFailedError, NobodyAnswersError, ask, serve_admin

WAIT_SECONDS = 20.0


async def echo(**arguments):
    return {"given": arguments}


async def refuse(topic=None):
    raise CommandFailedError(f"there is no topic {topic!r}")


async def wait_forever():
    await trio.sleep_forever()


COMMANDS = {"echo": echo, "refuse": refuse, "wait": wait_forever}


def with_admin(directory, work):
    """What `work`, in a thread, gives while commands are served."""

    async def main():
        with trio.fail_after(WAIT_SECONDS):
            async with trio.open_nursery() as nursery:
                await nursery.start(serve_admin, directory, COMMANDS)
                result = await trio.to_thread.run_sync(work)
                nursery.cancel_scope.cancel()
        return result

    return trio.run(main)


def refused(directory, command, **arguments):
    """The line of a refusal."""
    with pytest.raises(CommandFailedError) as raised:
        ask(directory, command, **arguments)
    return str(raised.value)


def raw(directory, data):
    """What comes back for these bytes."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client, admin._short_path(directory) as path:
        client.connect(path)
        client.sendall(data)
        client.settimeout(WAIT_SECONDS)
        with client.makefile("rb") as answers:
            return answers.read()


def test_a_command_is_done_with_its_arguments(tmp_path):
    assert with_admin(tmp_path, lambda: ask(tmp_path, "echo", topic="t")) == {"given": {"topic": "t"}}


def test_a_refusal_is_an_error_with_its_line(tmp_path):
    assert with_admin(tmp_path, lambda: refused(tmp_path, "refuse", topic="t")) == "there is no topic 't'"


@pytest.mark.parametrize("line", [b"\n", b"{}\n", b"[]\n", b"nonsense\n", b'{"command": "no such"}\n', b"\xff\xfe\n"])
def test_what_is_no_command_is_told_so(tmp_path, line):
    assert json.loads(with_admin(tmp_path, lambda: raw(tmp_path, line))) == {"error": "this is no command"}


def test_arguments_that_a_command_does_not_take_are_told(tmp_path):
    assert with_admin(tmp_path, lambda: refused(tmp_path, "refuse", other=1)) == "the command takes other arguments"


def test_a_line_without_an_end_is_not_kept(tmp_path):
    assert with_admin(tmp_path, lambda: raw(tmp_path, b"x" * (admin.LINE_BYTES_MAX + 1))) == b""


def test_a_silent_client_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(admin, "LINE_SECONDS", 0.01)
    assert with_admin(tmp_path, lambda: raw(tmp_path, b'{"command"')) == b""


def test_so_many_clients_at_a_time_are_served(tmp_path):
    """The clients are accepted in the order in which they came."""

    def work():
        with contextlib.ExitStack() as stack:
            path = stack.enter_context(admin._short_path(tmp_path))
            for _ in range(admin.CONNECTIONS_MAX):
                client = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
                client.connect(path)
                client.sendall(b'{"command": "wait"}\n')
            try:
                return raw(tmp_path, b'{"command": "echo"}\n')
            except (ConnectionResetError, BrokenPipeError):
                return b""

    assert with_admin(tmp_path, work) == b""


def test_only_the_owner_may_command_and_nothing_is_left_at_the_end(tmp_path):
    mode = with_admin(tmp_path, lambda: (tmp_path / ADMIN_NAME).stat().st_mode)
    assert stat.S_IMODE(mode) == 0o600
    assert not (tmp_path / ADMIN_NAME).exists()


def test_a_dead_brokers_socket_is_replaced(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead, admin._short_path(tmp_path) as path:
        dead.bind(path)
    with pytest.raises(NobodyAnswersError):
        ask(tmp_path, "echo")
    assert with_admin(tmp_path, lambda: ask(tmp_path, "echo")) == {"given": {}}


def test_a_long_directory_is_no_obstacle(tmp_path):
    directory = tmp_path / ("d" * 100) / ("e" * 100)
    directory.mkdir(parents=True)
    assert with_admin(directory, lambda: ask(directory, "echo")) == {"given": {}}


def test_a_command_is_done_where_the_system_does_not_show_what_is_open(tmp_path, monkeypatch):
    monkeypatch.setattr(admin, "DESCRIPTORS", tmp_path / "none")
    assert with_admin(tmp_path, lambda: ask(tmp_path, "echo", topic="t")) == {"given": {"topic": "t"}}
    assert not (tmp_path / ADMIN_NAME).exists()


def test_nobody_answers_where_no_broker_runs(tmp_path):
    with pytest.raises(NobodyAnswersError, match="no broker runs on"):
        ask(tmp_path, "echo")
