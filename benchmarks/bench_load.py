"""Measure the CPU time per request of the native load client, against a broker that this script starts.

    python benchmarks/bench_load.py [--rounds 7] [--seconds 1.0]

A client that needs more than the broker would limit the measurement. Its bound is 15 us per request at depth 64.
"""

import argparse
import statistics
import tempfile
from pathlib import Path

from pipeline_broker.measure.experiment.broker_process import BrokerSettings, running
from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.measure.load.statistics import figures

LOADS = ((1, 1), (1, 5), (1, 64), (16, 16))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--flush", choices=("always", "os"), default="os")
    options = parser.parse_args()
    print(f"{'load':>8} {'requests/s':>12} {'client us/request':>18} {'least':>7} {'share of a core':>16}")
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder,
        running([BrokerSettings("pipelined", Path(folder) / "data", flush=options.flush)]) as (broker,),
    ):
        for connections, in_flight in LOADS:
            costs, rates, shares = [], [], []
            for _ in range(options.rounds):
                load = LoadOptions(
                    broker.host, broker.port, connections, in_flight, seconds=options.seconds, warmup_s=0.1
                )
                result = run_load(load)
                seconds = (result.ended_ns - result.started_ns) / 1e9
                costs.append(result.client_cpu_share * seconds / len(result.rows) * 1e6)
                rates.append(figures(result.rows).requests_per_s)
                shares.append(result.client_cpu_share)
            print(
                f"{f'{connections} x {in_flight}':>8} {statistics.median(rates):>12,.0f} "
                f"{statistics.median(costs):>18.1f} {min(costs):>7.1f} {statistics.median(shares):>16.0%}"
            )


if __name__ == "__main__":
    main()
