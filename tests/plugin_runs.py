"""Runs of pytest with the plugin.

They load no other plugins automatically, which is faster; the tests of the wheel check that pytest finds this one.
"""

import os
import re
import subprocess
import sys
import textwrap

import attrs

from tests.forks import ANYWHERE, PARENT_OF_PYTEST, PYTEST, ROOT

PLUGIN = "pipeline_broker.pytest_plugin"
RUN_SECONDS_MAX = 100
THREE_CLIENTS = """
    import asyncio
    import warnings

    import pytest

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from kafka import KafkaConsumer, KafkaProducer


    def test_confluent_kafka(kafka_broker, kafka_topic):
        from confluent_kafka import Consumer, Producer

        producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers})
        producer.produce(kafka_topic, b"value")
        assert producer.flush(30) == 0
        consumer = Consumer(
            {
                "bootstrap.servers": kafka_broker.bootstrap_servers,
                "group.id": kafka_topic,
                "auto.offset.reset": "earliest",
            }
        )
        consumer.subscribe([kafka_topic])
        assert consumer.poll(30).value() == b"value"
        consumer.close()


    def test_kafka_python(kafka_broker, kafka_topic):
        producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap_servers)
        producer.send(kafka_topic, b"value").get(30)
        producer.close()
        consumer = KafkaConsumer(
            kafka_topic,
            bootstrap_servers=kafka_broker.bootstrap_servers,
            group_id=kafka_topic,
            auto_offset_reset="earliest",
            consumer_timeout_ms=30_000,
        )
        assert next(consumer).value == b"value"
        consumer.close()


    def test_aiokafka(kafka_broker, kafka_topic):
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

        async def main():
            servers = kafka_broker.bootstrap_servers
            async with AIOKafkaProducer(bootstrap_servers=servers) as producer:
                await producer.send_and_wait(kafka_topic, b"value")
            consumer = AIOKafkaConsumer(
                kafka_topic, bootstrap_servers=servers, group_id=kafka_topic, auto_offset_reset="earliest"
            )
            await consumer.start()
            try:
                return (await asyncio.wait_for(consumer.getone(), 30)).value
            finally:
                await consumer.stop()

        assert asyncio.run(main()) == b"value"
"""
"""A test with each of the clients of Python."""
IN_BOTH_MODES = """
    import pytest

    pytestmark = pytest.mark.kafka(mode=["classic", "pipelined"])
"""
FASTSTREAM_CLIENTS = ("kafka", "confluent")


def faststream_test(client):
    """Return the FastStream test of examples/, for one of its clients and both modes."""
    text = (ROOT / "examples/test_with_faststream.py").read_text(encoding="utf-8")
    assert "faststream.kafka" in text
    text = text.replace("faststream.kafka", f"faststream.{client}").replace("billing", f"billing-{client}")
    return text + textwrap.dedent(IN_BOTH_MODES)


def run_python(folder, *arguments, **environment):
    """Run Python in a directory, with this repository's packages."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, **ANYWHERE, **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=RUN_SECONDS_MAX,
    )


def run_pytest(folder, *arguments, is_fork=True):
    """Run pytest in a directory with the plugin: as a fork, unless it has workers or needs a new interpreter."""
    variables = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "COLUMNS": "200"}
    workers = ("-p", "xdist") if "-n" in arguments else ()
    command = (*PYTEST, "-p", "no:cacheprovider", "-W", "error", "-p", PLUGIN, *workers, *arguments)
    if workers or not is_fork:
        return run_python(folder, *command, **variables)
    return PARENT_OF_PYTEST.run(command, {**os.environ, **ANYWHERE, **variables}, RUN_SECONDS_MAX, folder)


@attrs.frozen
class Outcome:
    printed: str
    errors: str
    code: int

    @property
    def text(self):
        return self.printed + self.errors

    def counts(self):
        """The number of tests by outcome, from the last line."""
        return {
            word.rstrip("s"): int(number)
            for number, word in re.findall(r"(\d+) (passed|failed|errors?|warnings?)", self.last)
        }

    @property
    def last(self):
        """The last line of pytest: clients such as librdkafka may write to standard error after it."""
        return self.printed.rstrip().splitlines()[-1]


class Tree:
    """Writes test files into a directory with blanks in its path, and runs pytest on them."""

    def __init__(self, parent):
        self.folder = parent / "a stranger's tree"
        self.folder.mkdir()

    def __call__(self, files, *arguments, **options):
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        result = run_pytest(self.folder, *arguments, **options)
        return Outcome(result.stdout, result.stderr, result.returncode)
