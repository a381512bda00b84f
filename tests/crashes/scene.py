"""A broker process, clients that work on it, and the check of what it holds: the common part of all scenarios.

Rules of this file: a scene ends its broker and its clients, whatever happened in it. Starts are of one mode and flush
unless they are given.
"""

import contextlib
import random
import threading

from pipeline_broker.base.error_code import ErrorCode
from tests.crashes.broker_under_test import BrokerUnderTest
from tests.crashes.clerk import PARTITIONS_DEFAULT, Clerk, Reader, create_by_asking
from tests.crashes.history import History, violations
from tests.crashes.producers import IdempotentProducer, PlainProducer
from tests.crashes.read_back import read_contents
from tests.crashes.wire_client import ANSWER_SECONDS_MAX, WireClient
from tests.free_ports import free_port

TOPICS = ("orders", "audit")
PARTITIONS = [(name, index) for name in TOPICS for index in range(PARTITIONS_DEFAULT)]
THREAD_SECONDS_MAX = 60.0
STORAGE_ERROR = f"error {ErrorCode.KAFKA_STORAGE_ERROR.value}"


class Violated(AssertionError):
    """A claim did not hold."""


class Load:
    """Clients that work at once, each on a connection of its own, until the broker dies or they are stopped."""

    def __init__(self, address, history, clients, seconds_max=ANSWER_SECONDS_MAX):
        self._history = history
        self._seconds_max = seconds_max
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._drive, args=(client, address), daemon=True) for client in clients
        ]
        for thread in self._threads:
            thread.start()

    def _drive(self, client, address):
        try:
            with WireClient(address, self._seconds_max) as connection:
                client.drive(connection, self._stopping)
        except TimeoutError:
            self._history.complaints.append(f"{client.kind}: no answer")
        except OSError:
            pass  # the broker was killed
        except Exception as error:  # noqa: BLE001 - a client's failure is a finding, not the end of its thread
            self._history.complaints.append(f"{client.kind}: {error!r}")

    def stop(self):
        """Let everything in flight be answered."""
        self._stopping.set()
        self.join()

    def join(self):
        """Wait until all clients have ended."""
        for thread in self._threads:
            thread.join(THREAD_SECONDS_MAX)
            assert not thread.is_alive(), "a client hangs"


class Scene(contextlib.ExitStack):
    """See the module; `options` are those of BrokerUnderTest."""

    answer_seconds_max = ANSWER_SECONDS_MAX

    def __init__(self, seed, directory, *, mode="pipelined", flush="always", settings=(), **options):
        super().__init__()
        self.random = random.Random(seed)
        self.mode, self.flush = mode, flush
        settings = (f"num.partitions={PARTITIONS_DEFAULT}", "offsets.topic.num.partitions=3", *settings)
        self.broker = BrokerUnderTest(directory, free_port(), settings=settings, **options)
        self.history = History()
        self.clients = []
        self.callback(self.broker.kill)

    def start(self, mode=None, flush=None):
        """Start the broker and wait for its ready line."""
        self.broker.start(mode or self.mode, flush or self.flush)

    def prepare(self):
        """Create the topics and draw the clients."""
        with WireClient(self.broker.address) as client:
            topic_ids = {name: create_by_asking(client, self.history, name) for name in TOPICS}
        drawn = [random.Random(self.random.random()) for _ in range(4)]
        self.clients = [
            PlainProducer(self.history, drawn[0], topic_ids, PARTITIONS),
            PlainProducer(self.history, drawn[1], topic_ids, PARTITIONS),
            IdempotentProducer(self.history, drawn[2], topic_ids, PARTITIONS),
            Reader(self.history, topic_ids, PARTITIONS),
            Clerk(self.history, drawn[3], topic_ids),
        ]

    def load(self):
        """Set the clients to work."""
        return Load(self.broker.address, self.history, self.clients, self.answer_seconds_max)

    def resolve(self):
        """Let the idempotent producers hear of everything they sent."""
        self.load().stop()

    def forgive_storage_errors(self):
        """That a disk which was made to fail could not be read is no complaint."""
        self.history.complaints = [text for text in self.history.complaints if STORAGE_ERROR not in text]

    def verify(self):
        """Check what the broker holds; raises Violated."""
        known = self.history.snapshot()
        contents = read_contents(self.broker.address, set(TOPICS), tuple(self.history.commits))
        if found := violations(self.history, known, contents):
            raise Violated("\n".join(found[:20]))
        return contents
