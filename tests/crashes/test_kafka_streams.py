"""Kafka Streams with streams groups (KIP-1071): results and committed offsets are those that the input demands.

Instances of an application are killed or closed, and the broker is killed. `SECONDS` is the time of strikes, `SEED` the
first seed and `LEDGER` as in `ledger.py` (`make streams`). `AGAINST=kafka` runs the same on Apache Kafka.
"""

import itertools
import os
import shutil
import time

import attrs
import pytest

from tests import kafka_tools
from tests.conftest import CAMPAIGN
from tests.crashes import lengths
from tests.crashes.broker_under_test import BrokerUnderTest
from tests.crashes.ledger import HELD, Ledger, current_commit
from tests.crashes.streams.brokers import KafkaUnderTest
from tests.crashes.streams.expected import Violated
from tests.crashes.streams.instances import Compiled
from tests.crashes.streams.run import CLOSE, KILL, SETTINGS, STRIKES, Counts, Run
from tests.free_ports import free_port

pytestmark = [pytest.mark.faults, pytest.mark.kafka_streams]

KIND = "kafka-streams"
SECONDS = float(os.environ.get("SECONDS", "6"))
RUN_SECONDS_MAX = 60.0
SABOTAGED_RUNS_MAX = 5
SUMMARY = (
    "{kills_of_the_broker} kills of the broker, {kills_of_instances} of instances, {closed_instances} closed "
    "({gave_up} gave up): {records} records"
)


@attrs.define
class OurBroker(BrokerUnderTest):
    def start(self):
        self.starts or self.directory.mkdir(parents=True)
        super().start("pipelined", "always")


IS_KAFKA = os.environ.get("AGAINST") == "kafka"
# Apache Kafka 4.4.0, killed twice within 25 s, once committed the results of a transaction but not its input offsets.
POSSIBLE_STRIKES = [KILL, CLOSE] if IS_KAFKA else STRIKES


def new_broker(directory, *, standbys=0):
    settings = (*SETTINGS, f"group.streams.num.standby.replicas={standbys}")
    if IS_KAFKA:
        return KafkaUnderTest(directory, settings)
    return OurBroker(directory, free_port(), settings=settings)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    kafka_tools.require_kafka_streams()
    return Compiled(tmp_path_factory.mktemp("streams"))


def test_each_input_record_of_totals_has_exactly_one_result(tmp_path, compiled, record_property):
    ledger = Ledger(os.environ.get("LEDGER"), current_commit(), KIND)
    seeds = (seed for seed in itertools.count(int(os.environ.get("SEED", "0"))) if seed not in ledger.seeds)
    began = time.monotonic()
    while (left := SECONDS - (time.monotonic() - began)) > 0:
        seed = next(seeds)
        directory = tmp_path / f"run-{seed}"
        broker = new_broker(directory / "broker", standbys=seed % 2)
        run = Run(seed, directory, broker, compiled, "totals", 2 + seed % 2, POSSIBLE_STRIKES)
        try:
            with run:
                run.run(min(left, RUN_SECONDS_MAX))
        except Exception as error:
            ledger.append(seed=seed, outcome=f"{type(error).__name__}: {error}"[:2000], **attrs.asdict(run.counts))
            print(f"seed {seed}: the rest is in {run.directory}")
            raise
        ledger.append(seed=seed, outcome=HELD, **attrs.asdict(run.counts))
        shutil.rmtree(directory)
    totals = {field.name: ledger.total(field.name) for field in attrs.fields(Counts)}
    text = f"{SUMMARY.format(**totals)}, {len(ledger.lines)} runs, {len(ledger.violated_seeds)} violated"
    print(f"\n{text}, {time.monotonic() - began:.0f} s")
    assert totals["records"]
    assert ledger.violated_seeds == []
    record_property(CAMPAIGN, text)


@pytest.mark.skipif(not lengths.AT_LENGTH, reason="at length only: AT_LENGTH=1")
@pytest.mark.parametrize("sabotage", ["forgets-aborted-transactions", "forgets-transactional-offsets"])
def test_a_sabotaged_broker_is_noticed(tmp_path, compiled, sabotage):
    for seed in range(SABOTAGED_RUNS_MAX):
        directory = tmp_path / f"run-{seed}"
        run = Run(
            seed,
            directory,
            OurBroker(directory / "broker", free_port(), settings=SETTINGS, variant=sabotage),
            compiled,
            "totals",
        )
        try:
            with run:
                run.run(RUN_SECONDS_MAX / 4)
        except Violated:
            return
    pytest.fail(f"a broker that {sabotage} was not noticed in {SABOTAGED_RUNS_MAX} runs")


@pytest.mark.parametrize("strikes", lengths.drawn([CLOSE], POSSIBLE_STRIKES), ids="+".join)
def test_the_last_counts_of_words_cover_all_input(tmp_path, compiled, strikes):
    run = Run(0, tmp_path, new_broker(tmp_path / "broker"), compiled, "word-count", strikes=strikes)
    with run:
        run.run(min(SECONDS / 2, RUN_SECONDS_MAX))
    assert run.counts.closed_instances or run.counts.kills_of_instances or run.counts.kills_of_the_broker
