"""Copies with aiokafka, alone: see the rules of `copier.py`.

Its loop runs while something is waited for, and stands still in between.
"""

import asyncio

import aiokafka
from aiokafka.errors import KafkaError

from tests.crashes.exactly_once.copier import (
    BACKOFF_MS,
    BATCH_MAX,
    GROUP_ALONE,
    INPUT,
    OUTPUT_ALONE,
    PARTITIONS,
    POLL_SECONDS,
    STEP_SECONDS_MAX,
    TRANSACTION_TIMEOUT_MS,
    Copied,
    main,
)

INPUTS = [aiokafka.TopicPartition(INPUT, index) for index in range(PARTITIONS)]


class AioKafkaClient:
    """A producer that has fenced whoever was here before, and only then a consumer that goes on where that one was."""

    def __init__(self, bootstrap):
        self._loop = asyncio.new_event_loop()
        self._futures = []
        self._wait(self._start(bootstrap))

    async def _start(self, bootstrap):
        common = {"bootstrap_servers": bootstrap, "retry_backoff_ms": BACKOFF_MS}
        self._producer = aiokafka.AIOKafkaProducer(
            **common,
            transactional_id="copier-aiokafka",
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        await self._producer.start()
        async with self._producer.transaction():
            pass  # there is an id only then, and nobody else's transaction is open
        self._consumer = aiokafka.AIOKafkaConsumer(
            **common,
            group_id=GROUP_ALONE,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=50,
            max_poll_records=BATCH_MAX,
        )
        self._consumer.assign(INPUTS)
        await self._consumer.start()

    def _wait(self, coroutine):
        return self._loop.run_until_complete(asyncio.wait_for(coroutine, STEP_SECONDS_MAX))

    def take_rebalanced(self):
        """Partitions neither come nor go."""
        return False

    def poll(self):
        """The next records."""
        found = self._wait(self._consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000)))
        return [Copied(it.partition, it.offset, it.value.decode()) for records in found.values() for it in records]

    def begin(self):
        """A transaction."""
        self._futures = []
        self._wait(self._producer.begin_transaction())

    def send(self, topic, partition, value):
        """A record within it."""
        self._futures.append(self._wait(self._producer.send(topic, value, partition=partition)))

    def flush(self):
        """What was sent is there."""
        self._wait(asyncio.gather(*self._futures))

    def send_offsets(self, ends):
        """How far the input is read: partition -> offset."""
        positions = {INPUTS[index]: end for index, end in ends.items()}
        self._wait(self._producer.send_offsets_to_transaction(positions, GROUP_ALONE))
        self.flush()

    def commit(self):
        """Gives the offsets of what was sent."""
        self._wait(self._producer.commit_transaction())
        return [future.result().offset for future in self._futures]

    def abort(self):
        """Undo it."""
        self._wait(self._producer.abort_transaction())

    def rewind(self, starts):
        """Nothing refuses a commit but what is fatal."""
        raise KafkaError(f"to be read again: {starts}")


if __name__ == "__main__":
    main(AioKafkaClient, OUTPUT_ALONE)
