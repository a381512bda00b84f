"""Measure the cost of the archiver for producers: requests/s with it over requests/s without, in paired rounds.

    python benchmarks/bench_archive.py [--rounds 7] [--seconds 8] [--mode pipelined]

16 connections with 16 requests of one 100-byte record in flight, durable. A round starts two brokers, one without an
archiver, and drives them in turn. It is long enough to archive a journal segment (64 MB) or more. The line shows how
many bytes were archived. The bound is a cost of 20 %.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from archiving_broker import ARCHIVING, JOURNAL_ONLY, broker

from pipeline_broker.measure.experiment.intervals import speedup
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.statistics import figures

CONNECTIONS = DEPTH = 16
COST_MAX = 0.2


def rate(port: int, seconds: float) -> float:
    load = LoadOptions("127.0.0.1", port, CONNECTIONS, DEPTH, seconds=seconds, warmup_s=1.0)
    return figures(run_load(load).rows).requests_per_s


def archived_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("archive/*/*.log"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--mode", choices=("classic", "pipelined"), default="pipelined")
    options = parser.parse_args()
    pairs, archived = [], []
    for number in range(options.rounds):
        found = {}
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
            kinds = (JOURNAL_ONLY, ARCHIVING)
            for kind in kinds if number % 2 else reversed(kinds):
                data = Path(folder) / kind
                with broker(data, kind, "--mode", options.mode) as port:
                    found[kind] = rate(port, options.seconds)
                if kind != JOURNAL_ONLY:
                    archived.append(archived_bytes(data))
        pairs.append((found[JOURNAL_ONLY], found[ARCHIVING]))
    ratio = speedup(pairs)
    assert ratio is not None
    assert ratio.low is not None
    without, with_ = (statistics.median(values) for values in zip(*pairs, strict=True))
    verdict = "holds" if ratio.ratio >= 1 - COST_MAX else "BROKEN"
    print(
        f"{CONNECTIONS} x {DEPTH}: {with_:,.0f}/s with the archiver over {without:,.0f}/s without = {ratio.ratio:.3f} "
        f"({ratio.low:.3f} to {ratio.high:.3f}, {len(pairs)} rounds); cost <= {COST_MAX:.0%}: {verdict}; "
        f"{statistics.median(archived) / 1e6:,.0f} MB archived a round"
    )


if __name__ == "__main__":
    main()
