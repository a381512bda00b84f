"""Commands to a running broker, through a socket in its data directory; never through the Kafka port.

Rules of this room: users who may write into the directory may command, no others: the socket's mode is 0600. One
command and one answer a connection, each a line of JSON; every line, wait for a line, and number of clients has a
bound. A command that fails in a way nobody thought of is told and logged, and the broker goes on, unless the failure is
one that ends brokers. The path of a socket may be 108 bytes long, a data directory's longer, so it is opened by the
directory's descriptor, where the system shows those as files.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import json
import logging
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from pipeline_broker.first_cause import first_cause

if TYPE_CHECKING:
    from pipeline_broker.broker.broker import Broker

__all__ = ["ADMIN_NAME", "CommandFailedError", "NobodyAnswersError", "ask", "fault_commands", "serve_admin"]

logger = logging.getLogger(__name__)

ADMIN_NAME = "admin.socket"
CONNECTIONS_MAX = 8
LINE_BYTES_MAX = 64 * 1024
LINE_SECONDS = 5.0
"""How long a client may take to send its command, or to take the answer."""
RECEIVE_BYTES = 4096
DESCRIPTORS = Path("/proc/self/fd")
"""Where Linux shows what a process has open."""
OWNER_ONLY = 0o177
"""The mask of a socket that its owner may use."""
NOBODY = frozenset({errno.ENOENT, errno.ECONNREFUSED})

FAULT_ACTIONS = ("add", "list", "remove", "clear", "release", "expire", "rebalance")
"""Those of `faults/commands.py`."""

Command = Callable[..., Awaitable[Mapping[str, Any]]]


class CommandFailedError(Exception):
    """The broker refused the command, or could not do it; the text is one line."""


class NobodyAnswersError(Exception):
    """No broker runs on the data directory."""


@contextlib.contextmanager
def _short_path(directory: Path) -> Iterator[str]:
    if not DESCRIPTORS.is_dir():  # macOS: long directories are refused there, by the system
        yield min(str(directory / ADMIN_NAME), os.path.relpath(directory / ADMIN_NAME), key=len)
        return
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield str(DESCRIPTORS / str(descriptor) / ADMIN_NAME)
    finally:
        os.close(descriptor)


async def serve_admin(
    directory: Path,
    commands: Mapping[str, Command],
    *,
    fatal: tuple[type[Exception], ...] = (),
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve commands until cancelled; a socket that cannot be had is a warning, not the end.

    Args:
        directory: of the data; its lock is held, so that a socket in it is a dead broker's.
        commands: by name; called with the arguments that a client names.
        fatal: errors of a command that are raised: the broker cannot go on after them.
        task_status: started when clients may connect.
    """
    try:
        listener = _bound(directory)
    except OSError as error:
        logger.warning("commands to the running broker are not possible: %s", error.strerror or error)
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
            logger.info("the sender of a command did not wait for the answer")
        finally:
            limiter.release_on_behalf_of(stream)
            await trio.aclose_forcefully(stream)

    try:
        task_status.started()
        await trio.serve_listeners(handle, [trio.SocketListener(listener)])
    finally:
        with contextlib.suppress(FileNotFoundError):
            (directory / ADMIN_NAME).unlink()


def _bound(directory: Path) -> trio.socket.SocketType:
    with _short_path(directory) as path, contextlib.ExitStack() as stack:
        with contextlib.suppress(FileNotFoundError):
            (directory / ADMIN_NAME).unlink()
        listener = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        before = os.umask(OWNER_ONLY)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
        listener.listen(CONNECTIONS_MAX)
        found = trio.socket.from_stdlib_socket(listener)
        stack.pop_all()
        return found


async def _answer(
    stream: trio.SocketStream, commands: Mapping[str, Command], fatal: tuple[type[Exception], ...]
) -> None:
    with trio.move_on_after(LINE_SECONDS) as waiting:
        line = await _receive_line(stream)
    if waiting.cancelled_caught or line is None:
        return
    try:
        request = json.loads(line)
        name = request.pop("command")
        command = commands[name]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        answer = _told("this is not a command")
    else:
        answer = await _carried_out(name, command, request, fatal)
    with trio.move_on_after(LINE_SECONDS):
        await stream.send_all(answer + b"\n")


async def _carried_out(
    name: str, command: Command, arguments: Mapping[str, Any], fatal: tuple[type[Exception], ...]
) -> bytes:
    """The answer to a command, which is one in any case; raises `fatal` only."""
    try:
        inspect.signature(command).bind(**arguments)
    except TypeError:
        return _told("the command takes other arguments")
    try:
        return json.dumps(await command(**arguments)).encode()
    except CommandFailedError as error:
        return _told(str(error))
    except Exception as error:
        cause = first_cause(error)
        if isinstance(cause, fatal):
            raise
        logger.exception("the command %s failed unexpectedly; the broker goes on", name)
        words = " ".join(f"{type(cause).__name__}: {cause}".split())
        return _told(f"{name} failed unexpectedly: {words}; the broker goes on, and its log has more")


def _told(error: str) -> bytes:
    return json.dumps({"error": error}).encode()


async def _receive_line(stream: trio.SocketStream) -> bytes | None:
    received = bytearray()
    while b"\n" not in received:
        data = await stream.receive_some(RECEIVE_BYTES)
        received += data
        if not data or len(received) > LINE_BYTES_MAX:
            return None
    return bytes(received.partition(b"\n")[0])


def ask(directory: Path, command: str, **arguments: object) -> Mapping[str, Any]:
    """Give a command to the broker that runs on a data directory, and wait until it is done.

    Raises:
        NobodyAnswersError: none runs there.
        CommandFailedError: it refused.
    """
    line = json.dumps({"command": command, **arguments}).encode() + b"\n"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        try:
            with _short_path(directory) as path:
                client.connect(path)
            client.sendall(line)
            with client.makefile("rb") as answers:
                answered = answers.readline()
        except OSError as error:
            if error.errno in NOBODY:
                raise NobodyAnswersError(f"no broker runs on {directory}: name its directory with --data") from None
            raise CommandFailedError(f"the broker on {directory} cannot be asked: {error.strerror or error}") from None
    if not answered.endswith(b"\n"):
        raise CommandFailedError(f"the broker on {directory} ended before the command was done")
    answer: Mapping[str, Any] = json.loads(answered)
    if "error" in answer:
        raise CommandFailedError(answer["error"])
    return answer


def fault_commands(broker: Broker) -> dict[str, Command]:
    """The commands about fault rules, by name: what is wrong is CommandFailedError with its line."""

    def command(action: str) -> Command:
        async def run(**arguments: Any) -> Mapping[str, Any]:
            from pipeline_broker.faults.commands import carry_out  # noqa: PLC0415 - for those who have rules
            from pipeline_broker.faults.names import FaultError  # noqa: PLC0415 - see above

            await trio.lowlevel.checkpoint()
            try:
                return carry_out(broker, action, arguments, "command line")
            except FaultError as error:
                raise CommandFailedError(str(error)) from None

        return run

    return {f"faults {action}": command(action) for action in FAULT_ACTIONS}
