"""Compare commits on the event loop with commits in a thread, for disks of several speeds; see `stages.commit_place`.

    python benchmarks/bench_commit_place.py [--rounds 5] [--seconds 0.7] [--slower-us 0 60 150 300]

Each round starts a broker for each value of `pipeline.commit.on` (pipelined mode, durable, pure Python) and drives them
in turn. The ratios are those of requests per second and of processor time per request, with intervals. A slower disk is
a sync that takes `--slower-us` microseconds longer, in C and without the GIL, which needs a C compiler.
"""

import argparse
import contextlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from processor_time import processor_ns

from pipeline_broker.measure.experiment.broker_process import python_environment
from pipeline_broker.measure.experiment.intervals import speedup
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.statistics import figures

PLACES = ("thread", "loop", "auto")
LOADS = ((1, 1), (4, 1), (16, 1), (4, 4), (1, 64), (16, 16), (16, 64))
SLOW_SYNC = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
int fdatasync(int file) {
    static int (*sync)(int);
    static long longer_ns;
    if (!sync) {
        sync = dlsym(RTLD_NEXT, "fdatasync");
        longer_ns = 1000 * atol(getenv("SLOWER_US"));
    }
    int result = sync(file);
    struct timespec pause = {longer_ns / 1000000000, longer_ns % 1000000000};
    nanosleep(&pause, 0);
    return result;
}
"""


def slow_sync(folder: Path, slower_us: int) -> dict[str, str]:
    """Return an environment in which syncs take `slower_us` microseconds longer."""
    environment = python_environment()
    if slower_us:
        source, library = folder / "slow_sync.c", folder / "slow_sync.so"
        source.write_text(SLOW_SYNC, encoding="ascii")
        subprocess.run(["cc", "-O1", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        environment |= {"LD_PRELOAD": str(library), "SLOWER_US": str(slower_us)}
    return environment


@contextlib.contextmanager
def broker(place: str, environment: dict[str, str]) -> Iterator[tuple[int, int]]:
    """Run a broker with a new directory; yield its port and process id."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        command = [sys.executable, "-m", "pipeline_broker", "serve", "--port", "0", "--data", folder]
        command += ["--set", f"pipeline.commit.on={place}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            ready = re.search(r"listening on \S*:(\d+)", process.stdout.readline())
            assert ready is not None
            try:
                yield int(ready[1]), process.pid
            finally:
                process.send_signal(signal.SIGTERM)


def measured(place: str, connections: int, in_flight: int, seconds: float, environment: dict[str, str]) -> list[float]:
    """Return requests per second, and microseconds of the broker's processor time per request."""
    with broker(place, environment) as (port, pid):
        run_load(LoadOptions("127.0.0.1", port, connections, in_flight, seconds=0.4, warmup_s=0))
        before = processor_ns(pid)
        rows = run_load(LoadOptions("127.0.0.1", port, connections, in_flight, seconds=seconds, warmup_s=0)).rows
        return [figures(rows).requests_per_s, (processor_ns(pid) - before) / len(rows) / 1000]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.7)
    parser.add_argument("--slower-us", type=int, nargs="+", default=[0, 60, 150, 300])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for slower_us in options.slower_us:
            environment = slow_sync(Path(folder), slower_us)
            print(f"syncs that take {slower_us} us longer: over a thread")
            for connections, in_flight in LOADS:
                rounds: dict[str, list[list[float]]] = {place: [] for place in PLACES}
                for number in range(options.rounds):
                    for place in PLACES if number % 2 else reversed(PLACES):
                        rounds[place].append(measured(place, connections, in_flight, options.seconds, environment))
                for place in PLACES[1:]:
                    print(f"{connections:>4} x {in_flight:<3} {place:<5}{compared(rounds, place)}", flush=True)


def compared(rounds: dict[str, list[list[float]]], place: str) -> str:
    line = ""
    for index, name in enumerate(("requests/s", "us a request")):
        thread, other = ([one[index] for one in rounds[each]] for each in (PLACES[0], place))
        ratio = speedup(list(zip(thread, other, strict=True)))
        assert ratio is not None
        medians = f"{statistics.median(other):>9,.1f} for {statistics.median(thread):>9,.1f}"
        line += f"  {medians} {name}: {ratio.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
    return line


if __name__ == "__main__":
    main()
