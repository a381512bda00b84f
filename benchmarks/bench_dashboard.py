"""Measure the cost of a dashboard viewer: requests/s with a viewer of the live request path over requests/s without.

    python benchmarks/bench_dashboard.py [--rounds 15] [--seconds 0.5] [--rounds-max 80]

The rounds are those of `bench_metrics.py`: two brokers with a dashboard are driven in turn, and one of them has a
viewer. The bound is a cost of 5 % at 16 connections with 16 requests in flight and at 1 x 1, both durable. The viewer
runs in this process and reads about 20 kB per second. The processor time of a drawing browser is not included.
"""

import contextlib
import re
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import attrs
from bench_metrics import ROUNDS_MIN, Broker, Cell, Comparison, arguments, broker, measure

LINK = re.compile(r"dashboard on http://([^/]+)/")
CELLS = (Cell(16, 16, 0.05), Cell(1, 1, 0.05))
CONNECT_SECONDS = 5.0


@contextlib.contextmanager
def viewer(address: str) -> Iterator[None]:
    """Read the live request path during the block, and check that data arrived."""
    host, _, port = address.partition(":")
    received = 0
    with socket.create_connection((host, int(port)), CONNECT_SECONDS) as client:
        client.settimeout(None)
        client.sendall(f"GET /events/pipeline HTTP/1.1\r\nHost: {address}\r\n\r\n".encode())

        def read() -> None:
            nonlocal received
            with contextlib.suppress(OSError):
                while data := client.recv(65536):
                    received += len(data)

        thread = threading.Thread(target=read)
        thread.start()
        try:
            yield
        finally:
            client.shutdown(socket.SHUT_RDWR)
            thread.join()
    assert received, "the viewer saw nothing"


@attrs.frozen
class Watched(Comparison):
    """A comparison of a broker without a viewer and one with a viewer."""

    def started(self, folder: Path) -> contextlib.AbstractContextManager[Broker]:
        return broker(folder, self.mode, self.flush, *self.observed)

    @contextlib.contextmanager
    def pair(self) -> Iterator[tuple[Broker, Broker]]:
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=self.folder)))
            off, on = (stack.enter_context(self.started(folder / name)) for name in ("off", "on"))
            link = LINK.search((folder / "on.stderr").read_text(encoding="utf-8"))
            assert link is not None
            stack.enter_context(viewer(link[1]))
            yield off, on


def main() -> None:
    options = arguments(__doc__).parse_args()
    rounds = max(options.rounds, ROUNDS_MIN)
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        comparison = Watched(Path(folder), options.mode, options.flush, ("--dashboard", "0"))
        for cell in CELLS:
            rounds_max = max(rounds, options.rounds_max)
            measure(cell, comparison, rounds=rounds, rounds_max=rounds_max, seconds=options.seconds)


if __name__ == "__main__":
    main()
