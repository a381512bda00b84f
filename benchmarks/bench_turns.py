"""What keeps the event loop, while every other client waits: turns of more than 5 ms, and the longest, by what is done.

    python benchmarks/bench_turns.py [--members 1000] [--mode pipelined]

Each case has a broker of its own and is done twice: first with little, which loads what the first request of an API
loads, then with much. Both are told apart by the counts of `pipeline_broker_loop_long_turns_total`; the gauge of the
longest turn counts from the start of the broker. The bound is that no turn of much takes more than 5 ms.
"""

import argparse
import contextlib
import re
import socket
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from archiving_broker import ARCHIVING, broker
from bench_groups import SETTINGS, TOGETHER, Connection, ask, classic_rebalance, prepare

from pipeline_broker.measure.load.client import run_load
from pipeline_broker.measure.load.options import LoadOptions
from pipeline_broker.wire.messages.topics.create_topics import CreateTopicsRequest
from pipeline_broker.wire.messages.topics.delete_topics import DeleteTopicsRequest
from pipeline_broker.wire.messages.topics.metadata import MetadataRequest

SAMPLE = re.compile(
    r'^pipeline_broker_loop_(?P<kind>long_turns_total|turn_seconds_max)\{turn="(?P<turn>[^"]*)"\} (?P<value>.*)$'
)
LITTLE = 3
PARTITIONS = 10_000

Case = Callable[[int, int], None]


@contextlib.contextmanager
def serving(mode: str) -> Iterator[tuple[int, int]]:
    """A broker: its port, and that of its metrics."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        metrics_port = probe.getsockname()[1]
    with (
        tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder,
        broker(
            Path(folder) / "data", ARCHIVING, "--mode", mode, "--metrics", str(metrics_port), *SETTINGS, *TOGETHER
        ) as port,
    ):
        yield port, metrics_port


def turns(metrics_port: int) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """How often turns were long, and the longest ones in seconds, by what was done."""
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    found: dict[str, dict[str, float]] = {"long_turns_total": {}, "turn_seconds_max": {}}
    for sample in filter(None, map(SAMPLE.match, lines)):
        found[sample["kind"]][sample["turn"]] = float(sample["value"])
    return found["long_turns_total"], found["turn_seconds_max"]


def create(connection: Connection, name: str, partitions: int) -> None:
    topic = CreateTopicsRequest.CreatableTopic(name, partitions, 1)
    assert not ask(connection, CreateTopicsRequest([topic], 30_000), 4).topics[0].error_code


def metadata(port: int, count: int) -> None:
    """Ask ten times for all topics, of ten partitions each."""
    connection = Connection(port)
    for number in range(count // 10):
        create(connection, f"of-{count}-{number}", 10)
    for _ in range(10):
        ask(connection, MetadataRequest(topics=None), 5)


def topics(port: int, count: int) -> None:
    """Create a topic of many partitions, and delete it."""
    connection = Connection(port)
    create(connection, f"large-{count}", count)
    answer = ask(connection, DeleteTopicsRequest(topic_names=[f"large-{count}"], timeout_ms=30_000), 4)
    assert not answer.responses[0].error_code, answer


def auto_created(port: int, count: int) -> None:
    """Name topics that are not there in one request for metadata."""
    names = [MetadataRequest.MetadataRequestTopic(name=f"auto-{count}-{number}") for number in range(count)]
    ask(Connection(port), MetadataRequest(topics=names, allow_auto_topic_creation=True), 5)


def rebalanced(rebalance: Callable[[list[Connection], str], float]) -> Case:
    """Let so many members in, and one more."""

    def case(port: int, count: int) -> None:
        if count == LITTLE:
            prepare(port, count)
        connections = [Connection(port) for _ in range(count)]
        rebalance(connections, f"group-{count}")
        for connection in connections:
            connection.socket.close()

    return case


def archived(port: int, count: int) -> None:
    """Produce as fast as it goes for so many seconds, beside the archiver."""
    run_load(LoadOptions("127.0.0.1", port, 16, 16, record_size=1000, seconds=float(count), warmup_s=0.0))


def cases(members: int) -> Mapping[str, tuple[Case, int]]:
    """What is done, and how much is much."""
    return {
        f"Metadata of {PARTITIONS:,} partitions": (metadata, PARTITIONS),
        f"a topic of {PARTITIONS:,} partitions": (topics, PARTITIONS),
        "1,000 topics created by Metadata": (auto_created, 1_000),
        f"a rebalance of {members:,} members, classic protocol": (rebalanced(classic_rebalance), members),
        "10 s of records of 1,000 bytes, archived meanwhile": (archived, 10),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--mode", choices=("classic", "pipelined"), default="pipelined")
    options = parser.parse_args()
    for name, (case, much) in cases(options.members).items():
        with serving(options.mode) as (port, metrics_port):
            case(port, LITTLE)
            before, first = turns(metrics_port)
            case(port, much)
            after, longest = turns(metrics_port)
        long = {turn: count - before.get(turn, 0) for turn, count in after.items() if count > before.get(turn, 0)}
        print(
            f"{name}: {'holds' if not long else 'BROKEN'}; first use {1e3 * max(first.values()):.1f} ms at most",
            flush=True,
        )
        for turn, count in long.items():
            print(
                f"  {turn}: {count:.0f} long turns, the longest since the start {1e3 * longest[turn]:.1f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
