"""Read, process, write: what went in comes out once and in order, whoever is killed or held meanwhile.

Copiers with three clients share the partitions as one group, a fourth copies alone; each commits what it writes
together with how far it has read. They and the broker are killed, and they are held for longer than sessions last.
`SECONDS` is how long (`make exactly-once`), `LEDGER` and `SEED` are as in `campaign.py`.
"""

import itertools
import os
import shutil
import time

import attrs
import pytest

from tests import kafka_tools
from tests.conftest import CAMPAIGN
from tests.crashes.exactly_once.judge import Violated
from tests.crashes.exactly_once.run import BROKER, PAUSE, Counts, JavaCopier, Run
from tests.crashes.ledger import HELD, Ledger, current_commit
from tests.crashes.lengths import drawn
from tests.required import absent

pytestmark = [pytest.mark.faults, pytest.mark.exactly_once]

KIND = "exactly-once"
SECONDS = float(os.environ.get("SECONDS", "5"))
RUN_SECONDS_MAX = 60.0
SABOTAGED_RUNS_MAX = 5
SUMMARY = (
    "{kills_of_the_broker} kills of the broker, {kills_of_clients} of clients, {pauses} pauses "
    "({replaced} replaced meanwhile, {gave_up} gave up): {records} records once, {committed} transactions, "
    "{refused} refused"
)


@pytest.fixture(scope="module")
def java(tmp_path_factory):
    """The copier in Java; None where there is no Java or no Kafka."""
    if kafka_tools.what_is_missing("javac"):
        return None
    return JavaCopier(tmp_path_factory.mktemp("java"))


def test_what_goes_in_comes_out_exactly_once(tmp_path, java, record_property):
    """Case 8."""
    ledger = Ledger(os.environ.get("LEDGER"), current_commit(), KIND)
    seeds = (seed for seed in itertools.count(int(os.environ.get("SEED", "0"))) if seed not in ledger.seeds)
    began = time.monotonic()
    while (left := SECONDS - (time.monotonic() - began)) > 0:
        seed = next(seeds)
        run = Run(seed, tmp_path / f"run-{seed}", java)
        try:
            with run:
                run.run(min(left, RUN_SECONDS_MAX))
        except Exception as error:
            ledger.append(seed=seed, outcome=f"{type(error).__name__}: {error}"[:2000], **attrs.asdict(run.counts))
            print(f"seed {seed}: what is left is in {run.directory}")
            raise
        ledger.append(seed=seed, outcome=HELD, **attrs.asdict(run.counts))
        shutil.rmtree(run.directory)
    totals = {field.name: ledger.total(field.name) for field in attrs.fields(Counts)}
    text = f"{SUMMARY.format(**totals)}, {len(ledger.lines)} runs, {len(ledger.violated_seeds)} violated"
    print(f"\n{text}, {time.monotonic() - began:.0f} s")
    assert totals["kills_of_the_broker"]
    assert totals["records"]
    assert ledger.violated_seeds == []
    record_property(CAMPAIGN, text)
    if java is None:
        absent(f"it held, but without the copier in Java: {kafka_tools.what_is_missing('javac')}")


@pytest.mark.parametrize(
    ("sabotage", "strikes", "makes", "seconds"),
    drawn(
        ("forgets-transactional-offsets", [BROKER], ["confluent"], 0.5),
        ("forgets-aborted-transactions", [], ["confluent"], 0.0),
        ("takes-offsets-of-former-members", [PAUSE], ["confluent", "kafka-python"], 1.5),
        count=2,
    ),
)
def test_a_sabotaged_broker_is_noticed(tmp_path, sabotage, strikes, makes, seconds):
    """By what comes out twice, or should never have come out; not each pause strikes in the middle of a transaction."""
    for seed in range(SABOTAGED_RUNS_MAX):
        run = Run(seed, tmp_path / f"run-{seed}", java=None, variant=sabotage, strikes=strikes, makes=makes)
        try:
            with run:
                run.run(seconds)
        except Violated:
            return
    pytest.fail(f"a broker that {sabotage} was not noticed in {SABOTAGED_RUNS_MAX} runs")
