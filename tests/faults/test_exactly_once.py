"""Read, process, write: what went in comes out once and in order, whoever is killed meanwhile.

A copier commits what it writes together with how far it has read; it and the broker are killed in turn. `SECONDS` is
how long (`make exactly-once`), `LEDGER` and `SEED` are as in `campaign.py`.
"""

import contextlib
import itertools
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import attrs
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.conftest import CAMPAIGN, ROOT, start_broker
from tests.faults.exactly_once_worker import CONNECTION, INPUT, JUNK, OUTPUT, PARTITIONS
from tests.faults.ledger import HELD, Ledger, current_commit

pytestmark = [pytest.mark.faults, pytest.mark.exactly_once]

KIND = "exactly-once"
SECONDS = float(os.environ.get("SECONDS", "5"))
RUN_SECONDS_MAX = 60.0
BETWEEN_KILLS_SECONDS = (0.5, 1.5)
RECORDS_PER_SECOND = 200
END_SECONDS_MAX = 60.0
"""Without anything new coming out, once nobody is killed any more."""
WORKER = Path(__file__).parent / "exactly_once_worker.py"
SETTINGS = ("offsets.topic.num.partitions=3", "transaction.state.log.num.partitions=3")
SUMMARY = "{kills_of_the_broker} kills of the broker and {kills_of_the_client} of the client: {records} records once"


@attrs.define
class Counts:
    """What a run went through."""

    kills_of_the_broker: int = 0
    kills_of_the_client: int = 0
    records: int = 0


class Run:
    """One broker's data directory, one copier, and somebody who writes numbers."""

    def __init__(self, seed, directory):
        self.random = random.Random(seed)
        self.directory = directory
        self.counts = Counts()
        self.mode = ("pipelined", "classic")[seed % 2]
        self.starts = 0
        self.port = 0
        self.worker = None
        self.start_broker()
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, **CONNECTION})
        made = self.admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (INPUT, OUTPUT)])
        for future in made.values():
            future.result(END_SECONDS_MAX)
        self.writer = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5, **CONNECTION}
        )

    @property
    def bootstrap(self):
        return f"127.0.0.1:{self.port}"

    def start_broker(self):
        """On the port and the data of the one before."""
        self.starts += 1
        arguments = ["--port", str(self.port)] if self.port else []
        where = self.directory / f"start-{self.starts}"
        self.broker = start_broker(
            where, mode=self.mode, data=self.directory / "data", arguments=arguments, settings=SETTINGS
        )
        self.port = self.broker.port

    def start_worker(self):
        self.worker = subprocess.Popen(
            [sys.executable, str(WORKER), self.bootstrap, str(self.random.getrandbits(30))],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def end_worker(self):
        self.worker.kill()
        self.worker.wait()

    def kill_broker(self):
        self.broker.kill()
        self.broker.process.stdout.close()
        self.counts.kills_of_the_broker += 1
        self.start_broker()

    def kill_worker(self):
        self.end_worker()
        self.counts.kills_of_the_client += 1
        self.start_worker()

    def write_until(self, moment):
        """Write numbers, each to the partition of its rest."""
        while time.monotonic() < moment:
            for _ in range(RECORDS_PER_SECOND // 20):
                number = self.counts.records
                self.writer.produce(INPUT, b"%d" % number, None, number % PARTITIONS)
                self.counts.records += 1
            self.writer.poll(0.05)
            self.keep_worker()

    def keep_worker(self):
        """It gives up when it cannot go on, as an application does."""
        if self.worker.poll() is not None:
            self.start_worker()

    def run(self, seconds):
        end = time.monotonic() + seconds
        self.start_worker()
        kills = [self.kill_broker, self.kill_worker]
        while time.monotonic() < end:
            self.write_until(time.monotonic() + self.random.uniform(*BETWEEN_KILLS_SECONDS))
            kills[0]()
            kills.reverse()
        assert self.writer.flush(END_SECONDS_MAX) == 0
        self.check()

    def check(self):
        """All that was written comes out, once and in its order, and nothing else; the copier has the time it needs."""
        expected = [
            [b"%d" % number for number in range(index, self.counts.records, PARTITIONS)] for index in range(PARTITIONS)
        ]
        reader = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "judge",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                **CONNECTION,
            }
        )
        reader.assign([confluent_kafka.TopicPartition(OUTPUT, index, 0) for index in range(PARTITIONS)])
        found = [[] for _ in range(PARTITIONS)]
        deadline = time.monotonic() + END_SECONDS_MAX
        try:
            while found != expected and time.monotonic() < deadline:
                self.keep_worker()
                for message in reader.consume(500, 0.2):
                    if message.error() is None:
                        found[message.partition()].append(message.value())
                        deadline = time.monotonic() + END_SECONDS_MAX
                for index in range(PARTITIONS):
                    assert found[index] == expected[index][: len(found[index])], first_difference(found[index])
            assert found == expected, f"{[len(it) for it in found]} of {[len(it) for it in expected]} came out"
        finally:
            reader.close()

    def end(self):
        if self.worker is not None:
            self.end_worker()
        with contextlib.suppress(AssertionError):
            self.broker.stop()
        self.broker.process.stdout.close()


def first_difference(values):
    """Where a partition is not as it should be, and what is there."""
    assert JUNK not in values, "an aborted record was read"
    numbers = [int(value) for value in values]
    steps = [(a, b) for a, b in itertools.pairwise(numbers) if b != a + PARTITIONS]
    return f"begins with {numbers[:1]}, then {steps[:5]}"


def test_what_goes_in_comes_out_exactly_once(tmp_path, record_property):
    ledger = Ledger(os.environ.get("LEDGER"), current_commit(), KIND)
    began, seed = time.monotonic(), int(os.environ.get("SEED", "0"))
    while (left := SECONDS - (time.monotonic() - began)) > 0:
        while seed in ledger.seeds:
            seed += 1
        run = Run(seed, tmp_path / f"run-{seed}")
        try:
            run.run(min(left, RUN_SECONDS_MAX))
        except Exception as error:
            ledger.append(seed=seed, outcome=f"{type(error).__name__}: {error}"[:2000], **attrs.asdict(run.counts))
            print(f"seed {seed}: what is left is in {run.directory}")
            raise
        finally:
            run.end()
        ledger.append(seed=seed, outcome=HELD, **attrs.asdict(run.counts))
    totals = {field.name: ledger.total(field.name) for field in attrs.fields(Counts)}
    assert totals["kills_of_the_broker"]
    assert totals["records"]
    text = f"{SUMMARY.format(**totals)}, {len(ledger.lines)} runs, {len(ledger.violated_seeds)} violated"
    print(f"\n{text}, {time.monotonic() - began:.0f} s")
    assert ledger.violated_seeds == []
    record_property(CAMPAIGN, text)
