"""Operator commands to a running broker, through a Unix socket in its data directory.

Only the owner of the directory may connect: the socket has mode 0600. A connection carries one command and one answer,
each a line of JSON. Sizes, times and the number of connections are limited.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import trio

from pipeline_broker.node.operator_commands import COMMAND_BYTES_MAX, Command, CommandFailedError, answer_of
from pipeline_broker.node.unix_socket import listen_in, short_path

__all__ = ["ADMIN_NAME", "NoBrokerError", "ask", "serve_admin"]

logger = logging.getLogger(__name__)

ADMIN_NAME = "admin.socket"
CONNECTIONS_MAX = 8
# Time for a client to send its command, and time to receive the answer.
LINE_SECONDS = 5.0
RECEIVE_BYTES = 4096
NO_BROKER = frozenset({errno.ENOENT, errno.ECONNREFUSED})


class NoBrokerError(Exception):
    pass


async def serve_admin(
    directory: Path,
    commands: Mapping[str, Command],
    *,
    fatal: tuple[type[Exception], ...] = (),
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve commands until cancelled, or return after a warning if the socket cannot be made.

    Args:
        directory: data directory. The broker holds its lock, so an existing socket belongs to an ended process.
        commands: commands by name, called with the arguments that the client sends.
        fatal: errors of a command that end the broker; they are raised. Others are logged and reported to the client.
        task_status: started when clients can connect.
    """
    try:
        listener = trio.socket.from_stdlib_socket(listen_in(directory, ADMIN_NAME, CONNECTIONS_MAX))
    except OSError as error:
        logger.warning("cannot serve operator commands: %s", error.strerror or error)
        task_status.started()
        return
    limiter = trio.CapacityLimiter(CONNECTIONS_MAX)

    async def handle(stream: trio.SocketStream) -> None:
        try:
            limiter.acquire_on_behalf_of_nowait(stream)
        except trio.WouldBlock:
            await trio.aclose_forcefully(stream)
            return
        try:
            await _answer(stream, commands, fatal)
        except trio.BrokenResourceError:
            logger.info("the client closed its connection before the answer to its command")
        finally:
            limiter.release_on_behalf_of(stream)
            await trio.aclose_forcefully(stream)

    try:
        task_status.started()
        await trio.serve_listeners(handle, [trio.SocketListener(listener)])
    finally:
        with contextlib.suppress(FileNotFoundError):
            (directory / ADMIN_NAME).unlink()


async def _answer(
    stream: trio.SocketStream, commands: Mapping[str, Command], fatal: tuple[type[Exception], ...]
) -> None:
    with trio.move_on_after(LINE_SECONDS) as waiting:
        line = await _receive_line(stream)
    if waiting.cancelled_caught or line is None:
        return
    answer = await answer_of(line, commands, fatal)
    with trio.move_on_after(LINE_SECONDS):
        await stream.send_all(answer.text + b"\n")


async def _receive_line(stream: trio.SocketStream) -> bytes | None:
    received = bytearray()
    while b"\n" not in received:
        data = await stream.receive_some(RECEIVE_BYTES)
        received += data
        if not data or len(received) > COMMAND_BYTES_MAX:
            return None
    return bytes(received.partition(b"\n")[0])


def ask(directory: Path, command: str, **arguments: object) -> Mapping[str, Any]:
    """Send a command to the broker on a data directory, and wait for its answer.

    Raises:
        NoBrokerError: no broker runs on the directory.
        CommandFailedError: the broker refused the command, could not complete it, or ended before its answer.
    """
    line = json.dumps({"command": command, **arguments}).encode() + b"\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            with short_path(directory, ADMIN_NAME) as path:
                client.connect(path)
            client.sendall(line)
            with client.makefile("rb") as answers:
                answered = answers.readline()
        except OSError as error:
            if error.errno in NO_BROKER:
                raise NoBrokerError(f"no broker runs on {directory}: name its directory with --data") from None
            raise CommandFailedError(
                f"cannot connect to the broker on {directory}: {error.strerror or error}"
            ) from None
    if not answered.endswith(b"\n"):
        raise CommandFailedError(f"the broker on {directory} ended before the command was complete")
    answer: Mapping[str, Any] = json.loads(answered)
    if "error" in answer:
        raise CommandFailedError(answer["error"])
    return answer
