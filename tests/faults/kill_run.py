"""A run: one broker's data directory through several kills under load, and what must be left after each.

Rules of this file: a run is drawn from its seed: modes, flush, loads, the moments of the kills. (The operating system's
schedule is not, so a seed repeats the run and not its interleaving.) A run ends at the first violation, with its data
directory left behind.
"""

import contextlib
import random
import shutil
import threading

import attrs

from tests.faults.broker_under_test import BrokerUnderTest, free_port
from tests.faults.clerk import PARTITIONS_DEFAULT, Clerk, Reader, create_by_asking
from tests.faults.history import History, violations
from tests.faults.producers import ConfluentProducer, IdempotentProducer, PlainProducer
from tests.faults.read_back import read_contents, read_with_confluent, read_with_kafka_python
from tests.faults.wire_client import WireClient

MODES = ("classic", "pipelined")
TOPICS = ("orders", "audit")
LOAD_SECONDS = (0.05, 0.6)
RECOVERY_KILL_SHARE = 0.3
RECOVERY_KILL_SECONDS = (0.0, 0.4)
THREAD_SECONDS_MAX = 60.0


class Violated(AssertionError):
    """A claim did not hold."""


@attrs.define
class Counts:
    """What a run went through."""

    kills: int = 0
    kills_in_recovery: int = 0
    acknowledged: int = 0
    read_back: int = 0


class Load:
    """Clients that work at once, each on a connection of its own, until the broker dies or they are stopped."""

    def __init__(self, address, history, clients):
        self._history = history
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._drive, args=(client, address), daemon=True) for client in clients
        ]
        for thread in self._threads:
            thread.start()

    def _drive(self, client, address):
        try:
            with WireClient(address) as connection:
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


class KillRun:
    """See the module."""

    def __init__(self, seed, directory, variant=None):
        self.random = random.Random(seed)
        if variant is None:
            variant = self.random.choice((None, "rolling"))
        self.broker = BrokerUnderTest(
            directory,
            free_port(self.random),
            settings=(f"num.partitions={PARTITIONS_DEFAULT}",),
            variant=variant,
        )
        self.history = History()
        self.counts = Counts()
        self.clients = []
        self.confluent = None
        self._mode_index = seed

    def run(self, kills):
        """Go through so many kills under load, then a stop in order; raises Violated."""
        with contextlib.ExitStack() as stack:
            stack.callback(self.broker.kill)
            stack.callback(self._count)
            self._start()
            self._prepare()
            stack.callback(self.confluent.end)
            for _ in range(kills):
                self._load_until_killed()
                while self.random.random() < RECOVERY_KILL_SHARE:
                    self._kill_in_recovery()
                self._start()
                self._verify()
            self._finish()
        shutil.rmtree(self.broker.directory)

    def _count(self):
        self.counts.acknowledged = self.history.acknowledged_count

    def _draw_mode(self):
        self._mode_index += 1
        return MODES[self._mode_index % len(MODES)], self.random.choice(("always", "always", "always", "os"))

    def _start(self):
        self.broker.start(*self._draw_mode())

    def _prepare(self):
        with WireClient(self.broker.address) as client:
            topic_ids = {name: create_by_asking(client, self.history, name) for name in TOPICS}
        partitions = [(name, index) for name in TOPICS for index in range(PARTITIONS_DEFAULT)]
        drawn = [random.Random(self.random.random()) for _ in range(5)]
        self.clients = [
            PlainProducer(self.history, drawn[0], topic_ids, partitions),
            PlainProducer(self.history, drawn[1], topic_ids, partitions),
            IdempotentProducer(self.history, drawn[2], topic_ids, partitions),
            Reader(self.history, topic_ids, partitions),
            Clerk(self.history, drawn[3]),
        ]
        self.confluent = ConfluentProducer(self.history, drawn[4], self.broker.address, partitions)

    def _load_until_killed(self):
        self.confluent.active.set()
        load = Load(self.broker.address, self.history, self.clients)
        self.broker.kill_after(self.random.uniform(*LOAD_SECONDS))
        self.confluent.active.clear()
        load.join()
        self.counts.kills += 1

    def _kill_in_recovery(self):
        self.broker.launch(*self._draw_mode())
        self.broker.kill_after(self.random.uniform(*RECOVERY_KILL_SECONDS))
        self.counts.kills_in_recovery += 1

    def _verify(self):
        known = self.history.snapshot()
        contents = read_contents(self.broker.address, set(TOPICS))
        found = violations(self.history, known, contents)
        if found:
            raise Violated("\n".join(found[:20]))
        self.counts.read_back += sum(map(len, contents.records.values()))
        return contents

    def _finish(self):
        """Let the idempotent producers hear of everything, read with other clients, and stop and start in order."""
        load = Load(self.broker.address, self.history, self.clients)
        load.stop()
        self.confluent.finish()
        contents = self._verify()
        for read in (read_with_confluent, read_with_kafka_python):
            if read(self.broker.address, contents.high_watermarks) != contents.records:
                raise Violated(f"{read.__name__} and our own client do not read the same")
        code = self.broker.stop()
        if code:
            raise Violated(f"SIGTERM ended the broker with {code}: {self.broker.stderr}")
        self._start()
        self._verify()
