"""Sample memory and open files of a broker for an hour. Run from the repository's root:

    python benchmarks/bench_memory.py [--seconds 3600] [--every 300]

The pace leaves the machine idle. The load consists of keyed produce requests, of a mix with half reads, and of life
cycles, one after the other. In each cycle a topic is created, written by an idempotent producer, read by its own group
in one of both protocols, and deleted with the group. Five transactions accompany each cycle, and two of them are
aborted. The log keeps 32 MiB of each partition, so the archive deletes older segments. Each line is a sample of
resident memory and open descriptors.
"""

import argparse
import contextlib
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from pipeline_broker.measure.experiment.broker_process import (
    Brokers,
    BrokerSettings,
    RunningBroker,
    python_module,
)

LOADS = (
    ("--connections", "8", "--in-flight", "4", "--rate", "400", "--keys", "1000"),
    ("--connections", "4", "--in-flight", "2", "--rate", "100", "--read-share", "0.5", "--topic", "read"),
)
SETTINGS = {"log.retention.bytes": str(32 << 20), "log.segment.bytes": str(8 << 20)}
RECORDS, TRANSACTIONS, TRANSACTIONAL_IDS = 30, 5, 50
WAIT_SECONDS_MAX = 20.0
PROTOCOLS = ("classic", "consumer")


def life_cycle(address: str, number: int) -> None:
    """Create, write, read and delete a topic and a group, and run five transactions."""
    name = f"cycle-{uuid.uuid4().hex}"
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(name, 3, 1)])[name].result(WAIT_SECONDS_MAX)
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
    for key in range(RECORDS):
        producer.produce(name, bytes(100), key=str(key))
    producer.flush(WAIT_SECONDS_MAX)
    settings = {"group.id": name, "auto.offset.reset": "earliest", "group.protocol": PROTOCOLS[number % 2]}
    consumer = Consumer({"bootstrap.servers": address, **settings})
    with contextlib.closing(consumer):
        consumer.subscribe([name])
        latest, left = time.monotonic() + WAIT_SECONDS_MAX, RECORDS
        while left > 0:
            left -= len(consumer.consume(left, 0.5))
            if time.monotonic() > latest:
                raise TimeoutError(f"{left} records are missing")
    admin.delete_topics([name])[name].result(WAIT_SECONDS_MAX)
    admin.delete_consumer_groups([name])[name].result(WAIT_SECONDS_MAX)
    producer = Producer({"bootstrap.servers": address, "transactional.id": f"memory-{number % TRANSACTIONAL_IDS}"})
    producer.init_transactions(WAIT_SECONDS_MAX)
    for transaction in range(TRANSACTIONS):
        producer.begin_transaction()
        producer.produce("transactions", bytes(50))
        end = producer.commit_transaction if transaction % 4 else producer.abort_transaction
        end(WAIT_SECONDS_MAX)


def repeat_life_cycles(address: str, until: float, cycles: list[int]) -> None:
    while time.monotonic() < until:
        life_cycle(address, len(cycles))
        cycles.append(1)
        time.sleep(0.3)


@contextlib.contextmanager
def loads(address: str, seconds: float) -> Iterator[None]:
    running = [
        subprocess.Popen(python_module("pipeline_broker", "load", address, *load, "--seconds", str(seconds)))
        for load in LOADS
    ]
    try:
        yield
    finally:
        for process in running:
            process.wait()


def sample(broker: RunningBroker, cycles: list[int], began: float) -> None:
    folder = Path(f"/proc/{broker.pid}")
    resident = next(line for line in (folder / "status").read_text().splitlines() if line.startswith("VmRSS"))
    megabytes = int(resident.split()[1]) / 1000
    descriptors = len(list((folder / "fd").iterdir()))
    print(
        f"{time.monotonic() - began:6,.0f} s  {megabytes:6.1f} MB  {descriptors} descriptors  {len(cycles)} cycles",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--every", type=float, default=300.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        settings = BrokerSettings("pipelined", Path(folder) / "data", properties=tuple(SETTINGS.items()))
        with Brokers() as brokers:
            (broker,) = brokers.add([settings])
            address, cycles, began = f"{broker.host}:{broker.port}", list[int](), time.monotonic()
            sample(broker, cycles, began)
            until = began + options.seconds
            living = threading.Thread(target=repeat_life_cycles, args=(address, until, cycles))
            living.start()
            with loads(address, options.seconds):
                while (left := until - time.monotonic()) > 0:
                    time.sleep(min(options.every, left))
                    sample(broker, cycles, began)
            living.join()
            sample(broker, cycles, began)


if __name__ == "__main__":
    main()
