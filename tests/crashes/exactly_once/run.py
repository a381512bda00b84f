"""A run: one broker, copiers of several makes, somebody who writes numbers, and somebody who strikes.

Rules of this file: what is struck is drawn from the seed, a deck at a time: each deck has some kills of the broker and,
of each copier, a kill and a pause that outlasts its session. A copier that is held may be replaced meanwhile, as by
somebody who takes it for dead: it then comes back fenced. First all copiers are seen at work; at the end
all are killed once more, and then nobody is struck, so that all that is left comes out.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import attrs
import confluent_kafka
from confluent_kafka.admin import AdminClient, NewTopic

from tests import kafka_tools
from tests.conftest import ROOT
from tests.crashes.broker_under_test import BrokerUnderTest
from tests.crashes.exactly_once.confluent_copier import CONNECTION
from tests.crashes.exactly_once.copier import (
    GROUP,
    GROUP_ALONE,
    INPUT,
    OUTPUT,
    OUTPUT_ALONE,
    PARTITIONS,
    SESSION_TIMEOUT_MS,
)
from tests.crashes.exactly_once.judge import Judge
from tests.crashes.exactly_once.notes import operations, read_notes, written
from tests.free_ports import free_port
from tests.short_java import SHORT_JAVAC
from tests.tools.history_checker import FAILED, OK

MODES = ("pipelined", "classic")
BETWEEN_STRIKES_SECONDS = (0.5, 1.5)
PAUSE_SECONDS = (2 * SESSION_TIMEOUT_MS / 1000, 3 * SESSION_TIMEOUT_MS / 1000)
"""Long enough for a rebalance behind the end of the session."""
AFTER_PAUSES_SECONDS = 1.0
REPLACED_SHARE = 0.3
BROKER_KILLS_OF_A_DECK = 3
TICK_SECONDS = 0.05
RECORDS_OF_A_TICK = 10
AT_WORK_SECONDS_MAX = 60.0
END_SECONDS_MAX = 60.0
"""Without anything new coming out, once nobody is struck any more."""
COMPILE_SECONDS_MAX = 60.0
HERE = Path(__file__).parent
STRIKES = BROKER, KILL, PAUSE = "broker", "kill", "pause"
JAVA = "java"
OUTPUTS = {"confluent": OUTPUT, "kafka-python": OUTPUT, "aiokafka": OUTPUT_ALONE, JAVA: OUTPUT}
PROGRAMS = {make: HERE / f"{make.replace('-', '_')}_copier.py" for make in OUTPUTS if make != JAVA}
GROUPS = {OUTPUT: GROUP, OUTPUT_ALONE: GROUP_ALONE}
SETTINGS = (
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
    "group.initial.rebalance.delay.ms=0",
    "group.min.session.timeout.ms=1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms=500",
)


@attrs.define
class Counts:
    """What a run went through."""

    kills_of_the_broker: int = 0
    kills_of_clients: int = 0
    pauses: int = 0
    replaced: int = 0
    gave_up: int = 0
    records: int = 0
    committed: int = 0
    refused: int = 0


@attrs.define
class Copier:
    """One process; a make has one after the other."""

    name: str
    make: str
    process: subprocess.Popen
    notes: Path
    resumes_at: float | None = None

    def end(self):
        """Also when it is held."""
        self.process.kill()
        self.process.wait()
        self.resumes_at = None


class JavaCopier:
    """The copier in Java, which is compiled while others start; the directory is for what comes of it."""

    def __init__(self, directory):
        classes = kafka_tools.class_path()
        self._compiling = subprocess.Popen(
            [*SHORT_JAVAC, "-d", str(directory), "-cp", classes, str(HERE / "Copier.java")], stdin=subprocess.DEVNULL
        )
        self._command = [*kafka_tools.java_command(directory), "-cp", f"{classes}:{directory}", "Copier"]

    def command(self):
        """What runs it, once it is compiled."""
        assert self._compiling.wait(COMPILE_SECONDS_MAX) == 0
        return self._command


class Run:
    """See the module.

    Args:
        seed: what is drawn from it is the broker's modes and files, and the strikes.
        directory: for everything.
        java: the copier in Java, None to go without.
        variant: of the broker, see `broker_variant.py`.
        strikes: what may happen.
        makes: of the copiers.
    """

    def __init__(self, seed, directory, java, variant=None, strikes=STRIKES, makes=tuple(OUTPUTS)):
        self.random = random.Random(seed)
        self.directory = directory
        self.counts = Counts()
        self.history = []
        self._java = java
        self._makes = [make for make in makes if make != JAVA or java]
        self._mode_index = seed
        variant = variant or (None, "rolling")[seed // 2 % 2]
        self.broker = BrokerUnderTest(
            directory / "broker",
            free_port(),
            settings=SETTINGS,
            arguments=(
                "--request-log",
                str(directory / "requests.jsonl"),
            ),  # who was told what, where something is found
            variant=variant,
        )
        self.working = {}
        self.copiers = []
        self._strikes = strikes
        self._deck = []

    @property
    def mode(self):
        """Of the broker that was started last, or is about to be."""
        return MODES[self._mode_index % len(MODES)]

    @property
    def bootstrap(self):
        return "{}:{}".format(*self.broker.address)

    def __enter__(self):
        self._start_broker()
        admin = AdminClient({"bootstrap.servers": self.bootstrap, **CONNECTION})
        made = admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in (INPUT, OUTPUT, OUTPUT_ALONE)])
        for future in made.values():
            future.result(END_SECONDS_MAX)
        self.writer = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "linger.ms": 5, **CONNECTION}
        )
        for make in self._makes:
            self._start_copier(make)
        return self

    def __exit__(self, *_):
        self._end_copiers()
        self.broker.kill()

    def _start_broker(self):
        """On the port and the data of the one before, in the other mode."""
        self._mode_index += 1
        self.broker.start(self.mode, "always")

    def _start_copier(self, make):
        name = f"{make}-{len(self.copiers)}"
        program = self._java.command() if make == JAVA else [sys.executable, str(PROGRAMS[make])]
        notes = self.directory / f"{name}.notes"
        with (self.directory / f"{name}.stderr").open("wb") as stderr:
            process = subprocess.Popen(
                [*program, self.bootstrap, str(self.random.getrandbits(30)), name, str(notes)],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=stderr,
                stderr=stderr,
            )
        self.working[make] = Copier(name, make, process, notes)
        self.copiers.append(self.working[make])

    def _renew_copiers(self):
        """All of them, also those that go on well: so each has to ask the broker how far it was."""
        self._end_copiers()
        for make in self._makes:
            self._start_copier(make)

    def _end_copiers(self):
        for copier in self.copiers:
            copier.end()

    def run(self, seconds):
        """Strike for so long; raises AssertionError where what comes out is not what went in."""
        deadline = time.monotonic() + AT_WORK_SECONDS_MAX
        self._write_until(lambda: not self._idle() or time.monotonic() > deadline)
        assert not self._idle(), f"{self._idle()} copied nothing: see {self.directory}"
        end = time.monotonic() + seconds
        while self._strikes and time.monotonic() < end:
            moment = time.monotonic() + self.random.uniform(*BETWEEN_STRIKES_SECONDS)
            self._write_until(lambda moment=moment: time.monotonic() >= moment)
            self._strike()
        self._write_until(lambda: not any(it.resumes_at for it in self.copiers))
        moment = time.monotonic() + (AFTER_PAUSES_SECONDS if self.counts.pauses else 0)
        self._write_until(lambda: time.monotonic() >= moment)
        self._renew_copiers()
        assert self.writer.flush(END_SECONDS_MAX) == 0
        self._check()

    def _idle(self):
        """The copiers at work that have committed nothing yet."""
        return [it.name for it in self.working.values() if OK not in {at.fate for at in read_notes(it.notes)}]

    def _write_until(self, is_over):
        """Write numbers, each to the partition of its rest, and see that all others go on."""
        while not is_over():
            for _ in range(RECORDS_OF_A_TICK):
                number = self.counts.records
                self.writer.produce(
                    INPUT, str(number), None, number % PARTITIONS, on_delivery=self._note_write(str(number))
                )
                self.counts.records += 1
            tick_ends = time.monotonic() + TICK_SECONDS
            while (left := tick_ends - time.monotonic()) > 0:
                self.writer.poll(left)
            self.tend()

    def _note_write(self, value):
        def note(error, message):
            offset = None if error else message.offset()
            self.history.append(written(message.partition(), value, offset))

        return note

    def tend(self):
        """Let those go on that were held long enough, and start those again that gave up, as an application does."""
        self._resume(time.monotonic())
        for make, copier in self.working.items():
            if copier.process.poll() is not None:
                self.counts.gave_up += 1
                self._start_copier(make)

    def _resume(self, moment):
        for copier in self.copiers:
            if copier.resumes_at is not None and copier.resumes_at <= moment:
                copier.process.send_signal(signal.SIGCONT)
                copier.resumes_at = None

    def _strike(self):
        """The next of the deck; where it may be the broker, that is the first of all."""
        if not self._deck:
            cards = {
                BROKER: [(self._kill_broker, None)] * BROKER_KILLS_OF_A_DECK,
                KILL: [(self._kill, make) for make in self._makes],
                PAUSE: [(self._pause, make) for make in self._makes],
            }
            self._deck = [card for strike in self._strikes for card in cards[strike]]
            self.random.shuffle(self._deck)
            if BROKER in self._strikes and not self.counts.kills_of_the_broker:
                self._deck += cards[BROKER][:1]
        strike, make = self._deck.pop()
        strike(make)

    def _kill_broker(self, _):
        self.broker.kill()
        self.counts.kills_of_the_broker += 1
        self._start_broker()

    def _kill(self, make):
        self.working[make].end()
        self.counts.kills_of_clients += 1
        self._start_copier(make)

    def _pause(self, make):
        """Nothing happens to one that is held already, or gone."""
        copier = self.working[make]
        if copier.resumes_at is None and copier.process.poll() is None:
            copier.process.send_signal(signal.SIGSTOP)
            copier.resumes_at = time.monotonic() + self.random.uniform(*PAUSE_SECONDS)
            self.counts.pauses += 1
            if self.random.random() < REPLACED_SHARE:
                self.counts.replaced += 1
                self._start_copier(make)

    def _check(self):
        """All that was written comes out, once and in its order, and nothing else; it may take its time."""
        groups = {output: GROUPS[output] for output in {OUTPUTS[make] for make in self._makes}}
        judge = Judge(self.bootstrap, self.counts.records, groups)
        judge.wait(self.tend, END_SECONDS_MAX)
        self._end_copiers()
        for copier in self.copiers:
            attempts = read_notes(copier.notes)
            self.counts.committed += sum(it.fate == OK for it in attempts)
            self.counts.refused += sum(it.fate == FAILED and it.reason not in {None, "junk"} for it in attempts)
            self.history += operations(copier.name, OUTPUTS[copier.make], attempts)
        judge.judge(self.history)
