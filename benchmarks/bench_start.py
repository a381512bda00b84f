"""Measure the time from the start of the process to its first answer, and the memory of an idle broker.

    python benchmarks/bench_start.py [--rounds 7]

The start is compared with `python -c "import trio"` of the same run, because both depend on the machine in the same
way. Its bound is 250 ms or 1.5 times that import plus 60 ms, whichever is larger. The bound of the memory is 60 MB.
A first start, which is not measured, writes the bytecode that pip creates for an installed package. Without bytecode,
as in a folder of sources with PYTHONDONTWRITEBYTECODE set, each start compiles all modules again.
"""

import argparse
import contextlib
import os
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

IDLE_SECONDS = 1.0
API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def environment_with_bytecode(folder: Path) -> dict[str, str]:
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment


def import_seconds(environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import trio"], check=True, env=environment)
    return time.perf_counter() - began


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def start_seconds(data: Path, environment: dict[str, str]) -> tuple[float, float]:
    """Return the seconds to the first answer, and the MB of resident memory when idle."""
    port = free_port()
    began = time.perf_counter()
    command = [sys.executable, "-m", "pipeline_broker", "serve", "--port", str(port), "--data", str(data)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        try:
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as client:
                    client.sendall(API_VERSIONS)
                    if client.recv(4096):
                        break
                time.sleep(0.002)
            seconds = time.perf_counter() - began
            time.sleep(IDLE_SECONDS)
            status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
            kilobytes = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
        finally:
            process.terminate()
    return seconds, int(kilobytes) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    imports, starts, memories = [], [], []
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        environment = environment_with_bytecode(Path(folder))
        start_seconds(Path(folder) / "first", environment)
        for number in range(options.rounds):
            imports.append(import_seconds(environment))
            seconds, megabytes = start_seconds(Path(folder) / str(number), environment)
            starts.append(seconds)
            memories.append(megabytes)
    bound = max(0.250, 1.5 * statistics.median(imports) + 0.060)
    print(f"import trio      {statistics.median(imports) * 1000:6.0f} ms (median of {options.rounds})")
    print(f"first answer     {statistics.median(starts) * 1000:6.0f} ms, bound {bound * 1000:.0f} ms")
    print(f"idle memory      {statistics.median(memories):6.1f} MB, bound 60 MB")


if __name__ == "__main__":
    main()
