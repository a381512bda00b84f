"""A pipelined echo server on `stages` alone: `python examples/echo_server.py pipelined 9999 echo.log`."""

import os
import sys

import trio

from stages.commit_storage import CommitStorage
from stages.listener import open_listener
from stages.mode import MODES
from stages.request import Close, Pending, Request, Send
from stages.request_handler import Application
from stages.socket_server import SocketServer


class Echo(Application):
    def handle(self, request: Request) -> Pending:  # durable first, then sent back, in order
        return Pending([bytes(request.frame)], Send(request.frame))

    def failed(self, request: Request, error: Exception) -> Close:
        return Close(str(error))


class File(CommitStorage):
    def __init__(self, path: str) -> None:
        self.fd = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        self.key_of, self.size_of = hash, len

    def write(self, entries: list[bytes]) -> None:
        os.write(self.fd, b"".join(entries))

    def sync(self, ticket: None) -> None:
        os.fdatasync(self.fd)


if __name__ == "__main__":
    mode, port, path = sys.argv[1:] or ("pipelined", "9999", "echo.log")
    listener = open_listener("ECHO", "127.0.0.1", int(port))
    print(f"listening on {listener.port}", flush=True)
    trio.run(SocketServer(MODES[mode], Echo(), File(path)).run, [listener])
