"""What TLS costs: `python benchmarks/bench_tls.py [rounds] [seconds] [connections] [in flight]`.

The echo server of bench_echo.py in a process of its own, plaintext and TLS 1.3 in turn, round by round, under a
closed-loop client with requests of 100 bytes. Both ends of TLS cost CPU, and the client is Python too; so beside the
ratio of the rates stands that of the server's own CPU time per request, which no client can spoil.
"""

from __future__ import annotations

import os
import selectors
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import attrs
import trio
import trustme
from bench_echo import FRAME, Echo, File

from stages.listener import open_listener
from stages.mode import PIPELINED
from stages.socket_server import SocketServer

WARM_UP = 0.3


def serve(certificate: str, path: str) -> None:
    """Serve TLS, or plaintext without a certificate."""
    tls = None
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    listener = open_listener("ECHO", "127.0.0.1", 0)
    if tls is not None:
        listener = attrs.evolve(listener, tls=lambda: tls)
    print(listener.port, flush=True)
    trio.run(SocketServer(PIPELINED, Echo(is_durable=False), File(path)).run, [listener])


def connect(port: int, context: ssl.SSLContext | None) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if context is not None:
        sock = context.wrap_socket(sock, server_hostname="localhost")
    sock.setblocking(False)
    return sock


def load(port: int, context: ssl.SSLContext | None, connections: int, in_flight: int, seconds: float) -> int:
    """Requests that were answered in so many seconds."""
    selector = selectors.DefaultSelector()
    received: dict[socket.socket, int] = {}
    for _ in range(connections):
        sock = connect(port, context)
        selector.register(sock, selectors.EVENT_READ)
        received[sock] = 0
        sock.send(FRAME * in_flight)
    answered, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        for key, _ in selector.select(0.1):
            sock = key.fileobj
            assert isinstance(sock, socket.socket)
            with suppress(BlockingIOError, ssl.SSLWantReadError):
                while True:
                    count, received[sock] = divmod(received[sock] + len(sock.recv(65536)), len(FRAME))
                    answered += count
                    if count:
                        sock.send(FRAME * count)
                    if not (isinstance(sock, ssl.SSLSocket) and sock.pending()):
                        break
    for sock in received:
        sock.close()
    return answered


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(certificate: str, connections: int, in_flight: int, seconds: float) -> tuple[float, float]:
    """Requests per second, and microseconds of the server's CPU per request."""
    context = ssl.create_default_context(cafile=certificate) if certificate else None
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        command = [sys.executable, __file__, "serve", certificate, str(Path(folder) / "echo.log")]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                port = int(server.stdout.readline())
                load(port, context, connections, in_flight, WARM_UP)
                before = cpu_seconds(server.pid)
                answered = load(port, context, connections, in_flight, seconds)
                return answered / seconds, (cpu_seconds(server.pid) - before) * 1e6 / answered
            finally:
                server.kill()


def main(rounds: int = 7, seconds: float = 1.0, connections: int = 16, in_flight: int = 16) -> None:
    with tempfile.NamedTemporaryFile(suffix=".pem") as file:
        authority = trustme.CA()
        issued = authority.issue_cert("localhost")
        file.write(issued.private_key_and_cert_chain_pem.bytes() + authority.cert_pem.bytes())
        file.flush()
        results: dict[str, list[tuple[float, float]]] = {"": [], file.name: []}
        for number in range(rounds):
            for certificate in sorted(results, reverse=bool(number % 2)):
                results[certificate].append(measure(certificate, connections, in_flight, seconds))
    plain, tls = (list(zip(*values, strict=True)) for values in results.values())
    ratios = [one / other for one, other in zip(tls[0], plain[0], strict=True)]
    for name, (rates, costs) in (("plaintext", plain), ("TLS 1.3", tls)):
        print(f"{name:>9} {statistics.median(rates):>9,.0f}/s {statistics.median(costs):>6.2f} us of CPU per request")
    print(f"TLS over plaintext: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}) of the rate")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
    else:
        main(*(kind(value) for kind, value in zip((int, float, int, int), sys.argv[1:], strict=False)))
