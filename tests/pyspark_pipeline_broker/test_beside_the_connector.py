"""This source and Spark's Kafka connector read the same rows, or both fail; AT_LENGTH=1 runs every scenario."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import confluent_kafka as ck
import confluent_kafka.admin as cka
import pytest

from spark_analysis.java import find_java
from tests.crashes.lengths import AT_LENGTH
from tests.pyspark_pipeline_broker.connector_scenarios import CUT_AT, FIRST_MS, RECORDS, TOPICS, scenarios

pytestmark = [pytest.mark.spark, pytest.mark.clients]

ROOT = Path(__file__).parents[2]
WAIT_SECONDS = 20
DRAWN = 4
"""Scenarios of an ordinary run."""


def fill(broker):
    quiet = {"bootstrap.servers": broker.bootstrap, "log_level": 0, "error_cb": lambda _: None}
    admin = cka.AdminClient(quiet)
    for future in admin.create_topics([cka.NewTopic(topic, count, 1) for topic, count in TOPICS.items()]).values():
        future.result(WAIT_SECONDS)
    plain, transactional = ck.Producer(quiet), ck.Producer({**quiet, "transactional.id": "t"})
    transactional.init_transactions(WAIT_SECONDS)
    for topic, count in TOPICS.items():
        for partition, number in ((partition, number) for partition in range(count) for number in range(RECORDS)):
            if topic != "empty":
                headers = [("h", b"%d" % number)] if number % 2 else None
                at = FIRST_MS + 1000 * number
                plain.produce(topic, b"%d" % number, b"k", partition, timestamp=at, headers=headers)
    assert plain.flush(WAIT_SECONDS) == 0
    for is_committed in (False, True):
        transactional.begin_transaction()
        transactional.produce("bills", b"in a transaction", None, 0)
        (transactional.commit_transaction if is_committed else transactional.abort_transaction)(WAIT_SECONDS)
    (deleted,) = admin.delete_records([ck.TopicPartition("cut", 0, CUT_AT)]).values()
    deleted.result(WAIT_SECONDS)


@pytest.mark.timeout(1800 if AT_LENGTH else 600)
def test_both_read_the_same_rows_or_fail(broker_process, tmp_path):
    broker = broker_process(settings=("log.retention.ms=-1",))
    fill(broker)
    every = scenarios()
    wanted = every if AT_LENGTH else random.sample(every, DRAWN)
    file = tmp_path / "scenarios.json"
    file.write_text(json.dumps([scenario.options for scenario in wanted]))
    environment = {**os.environ, "JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable}
    environment["PYTHONPATH"] = os.pathsep.join([*filter(None, [os.environ.get("PYTHONPATH")]), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "tests.pyspark_pipeline_broker.connector_program", broker.bootstrap, broker.data, file],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) == len(wanted)
    unlike = []
    for scenario, (ours, connector) in zip(wanted, found, strict=True):
        are_alike = ours.get("rows") == connector.get("rows")
        if not are_alike and scenario.difference is None:
            unlike.append(f"{scenario.options}: ours {brief(ours)}, the connector {brief(connector)}")
    assert not unlike, "\n".join(unlike)


def test_every_difference_is_documented():
    page = " ".join((ROOT / "docs/guides/spark-source.md").read_text(encoding="utf-8").split())
    for difference in {scenario.difference for scenario in scenarios()} - {None}:
        assert difference in page


def brief(result):
    return f"{len(result['rows'])} rows" if "rows" in result else result["error"]
