"""Show the stages of a broker under load while it runs: a broker, a load, and Spark's Structured Streaming.

    scripts/live.py [--mode MODE] [--rate N] [--seconds N] [--out DIR]

The broker publishes the timelines of its requests. The job of spark_analysis.live consumes them, and shows stage
percentiles for windows of ten seconds. Everything stops after the given time or with Ctrl-C. The windows remain in
out/live/windows.
"""

import argparse
import contextlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
READY_LINE = re.compile(rb"listening on (\S+) ")
STOP_SECONDS_MAX = 20.0
# The duration counts from the first window, so the load runs longer. It is stopped with the job.
LOAD_SECONDS_MORE = 200.0


@contextlib.contextmanager
def running(command: list[str], **arguments: int) -> Iterator[subprocess.Popen[bytes]]:
    # In its own session, so that Ctrl-C reaches it only through this script, in order.
    process = subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, start_new_session=True, **arguments)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def show(mode: str, rate: int, seconds: float, out: Path, data: Path) -> int:
    """Run broker, load and job; return the exit code of the job."""
    serve = ["pipeline_broker", "serve", "--mode", mode, "--port", "0", "--data", str(data)]
    with running([*serve, "--set", "pipeline.timelines=true"], stdout=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        ready = READY_LINE.match(broker.stdout.readline())
        if ready is None:
            return 1
        address = ready[1].decode()
        print(f"broker ({mode}) on {address}, load of {rate:,} requests/s; starting Spark", flush=True)
        load = ["load", address, "--connections", "4", "--rate", str(rate), "--arrivals", "poisson"]
        load += ["--seconds", str(seconds + LOAD_SECONDS_MORE)]
        job = [sys.executable, "-m", "spark_analysis.live", address, str(out), "--seconds", str(seconds)]
        with running(["pipeline_broker", *load], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
            return subprocess.Popen(job, cwd=ROOT).wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mode", choices=["classic", "pipelined"], default="pipelined")
    parser.add_argument("--rate", type=int, default=2000, help="requests per second")
    parser.add_argument("--seconds", type=float, default=60.0, help="duration from the first window")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "live")
    options = parser.parse_args()
    shutil.rmtree(options.out, ignore_errors=True)  # its checkpoints refer to the records of an earlier broker
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, lambda *_: None)  # the job receives it too and ends, which ends this script
    with tempfile.TemporaryDirectory(prefix="live-") as data:
        code = show(options.mode, options.rate, options.seconds, options.out.resolve(), Path(data))
    if code == 0:
        print(f"windows: {options.out}/windows")
    return code


if __name__ == "__main__":
    sys.exit(main())
