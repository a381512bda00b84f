"""Lives of brokers under attack: what each case costs, and what the innocent client waits for meanwhile.

Rules of this file: bounds are never loosened. What other programs of the machine do is kept out instead: the directory
is in memory where the system has a file system for that; of a wait counts what the broker made of it, not the kernel's
lack of processors (`innocent`); and a wait that is up to NARROWLY times as long as may be is measured again, alone in
a new life, up to three times. A longer wait, and memory, count at once.
"""

import os
import selectors
import socket
import struct
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import attrs

from pipeline_broker.wire.messages.security.sasl_authenticate import SaslAuthenticateRequest
from pipeline_broker.wire.messages.security.sasl_handshake import SaslHandshakeRequest
from tests.bad_input.conftest import Subject
from tests.bad_input.raw_client import frame_of
from tests.conftest import start_broker
from tests.crashes.wire_client import WireClient
from tests.forks import PROGRAM
from tests.free_ports import free_port
from tests.hostile import prepared
from tests.hostile.innocent import Innocent

WAIT_MS_MAX = 250.0
"""The innocent client's worst wait."""
GROWTH_BYTES_MAX = 50_000_000
"""What the broker's memory may grow by while it works on a case, beyond the bytes of the requests and what it keeps."""
STOP_SECONDS_MAX = 10.0
NARROWLY = 4.0
ANSWER_SECONDS_MAX = 120.0
BASELINE_SECONDS = 0.3
UNREAD_SECONDS = 3.0
"""How long answers are left unread where a case says so."""
RECEIVE_BYTES = 1 << 20
LENGTH = struct.Struct(">i")
TICKS = os.sysconf("SC_CLK_TCK")
ROOT, STRANGER, PASSWORD = "root", "stranger", "secret"
SHARED_MEMORY = Path("/dev/shm")


@attrs.frozen
class Cost:
    """What a case took.

    Attributes:
        request_bytes: of all its requests.
        answer_bytes: of all answers.
        seconds: until the last answer.
        cpu_ms: of the broker, all threads.
        growth_bytes: highest memory during the case beyond what was used before and the bytes of the requests.
        growth_bytes_max: how high it may be.
        waits: of the innocent client.
        unanswered: requests that were not answered; a closed connection is an answer.
    """

    request_bytes: int
    answer_bytes: int
    seconds: float
    cpu_ms: float
    growth_bytes: int
    growth_bytes_max: int
    waits: object
    unanswered: int

    @property
    def faults(self):
        """The bounds that do not hold."""
        found = []
        if self.waits.error:
            found.append(f"the innocent client was answered {self.waits.error}")
        if self.unanswered:
            found.append(f"no answer to {self.unanswered} requests within {ANSWER_SECONDS_MAX:.0f} s")
        if self.waits.worst_ms > WAIT_MS_MAX:
            found.append(f"the innocent client waited {self.waits.worst_ms:.0f} ms")
        if self.growth_bytes > self.growth_bytes_max:
            found.append(f"memory grew by {self.growth_bytes / 1e6:.0f} MB")
        return found

    @property
    def is_narrow(self):
        """Whether the only fault is a wait that noise may have made."""
        return len(self.faults) == 1 and WAIT_MS_MAX < self.waits.worst_ms <= NARROWLY * WAIT_MS_MAX


HEAD = "worst ms clock ms  CPU ms  MB more    request     answer  mode, API, version, case"


def row(mode, case, cost):
    """A line of the table under HEAD."""
    waits = cost.waits
    return (
        f"{waits.worst_ms:8.0f} {waits.clock_ms:8.0f} {cost.cpu_ms:7.0f} {cost.growth_bytes / 1e6:8.1f} "
        f"{cost.request_bytes:10,} {cost.answer_bytes:10,}  {mode} {case.name}"
    )


@contextmanager
def in_memory(fallback):
    """A folder in memory, removed at the end; one in `fallback` where the system has no such file system."""
    parent = SHARED_MEMORY if os.access(SHARED_MEMORY, os.W_OK) else fallback
    with TemporaryDirectory(dir=parent, prefix="hostile-") as folder:
        yield Path(folder)


def cpu_ms(pid):
    """Of all threads of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS * 1e3


@attrs.frozen
class Guard:
    """Who attacks a broker that asks who they are.

    Attributes:
        user: logs in by PLAIN; one that is no super user has the rights that the prepared ACLs give it.
    """

    user: str

    def settings(self, sasl_port):
        """Of a broker with an authorizer and delegation tokens, where the innocent client is still served."""
        jaas = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{self.user}="{PASSWORD}";'
        return [
            f"listeners=PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{sasl_port}",
            "sasl.enabled.mechanisms=PLAIN",
            f"listener.name.sasl_plaintext.plain.sasl.jaas.config={jaas}",
            f"authorizer.class.name={prepared.AUTHORIZER}",
            f"super.users=User:ANONYMOUS;User:{ROOT}",
            "delegation.token.secret.key=secret",
        ]

    def log_in(self, connection):
        """By two requests, whose answers are read."""
        token = SaslAuthenticateRequest(f"\0{self.user}\0{PASSWORD}".encode())
        for request in (SaslHandshakeRequest("PLAIN"), token):
            payload = frame_of(request, 1)
            connection.sendall(LENGTH.pack(len(payload)) + payload)
            (length,) = LENGTH.unpack(connection.recv(LENGTH.size, socket.MSG_WAITALL))
            connection.recv(length, socket.MSG_WAITALL)


class Life:
    """A broker of its own process on a copy of the prepared directory, with the innocent client.

    Args:
        folder: where its directory is made.
        source: what `prepared.prepare` filled.
        mode: of the broker.
        guard: who attacks, where the broker asks; without one it has Kafka's defaults, but for CLEANUP_MS.
        program: what Python runs.
    """

    def __init__(self, folder, source, mode, guard=None, program=PROGRAM):
        self.mode = mode
        self._folder = folder
        self._guard = guard
        self._attacked_port = free_port() if guard else None
        settings = [f"transaction.abort.timed.out.transaction.cleanup.interval.ms={prepared.CLEANUP_MS}"]
        settings += guard.settings(self._attacked_port) if guard else ()
        self._data = prepared.copy_of(source, folder / "data")
        self._settings = settings
        self.process = start_broker(folder / "broker", mode=mode, data=self._data, settings=settings, program=program)
        self.subject = Subject(self.process, None)
        self.innocent = Innocent(self.process.port, self.process.pid)
        self.baseline = self._first_waits()

    @property
    def address(self):
        return self.process.host, self.process.port

    def _first_waits(self):
        """What the innocent client waits for while nothing else is asked."""
        while not self.innocent.waits().requests:
            time.sleep(BASELINE_SECONDS)
        time.sleep(BASELINE_SECONDS)
        return self.innocent.waits()

    def attack(self, case, world):
        """Have each payload of a case sent by a connection of its own, and the answers read."""
        if case.before:
            with WireClient(self.address, ANSWER_SECONDS_MAX) as client:
                case.before(client, world)
        payloads = case.payloads(world)
        self.innocent.waits()
        used_bytes, used_ms = self.subject.memory_bytes(), cpu_ms(self.process.pid)
        self.subject.reset_memory_peak()
        began = time.monotonic()
        with ExitStack() as stack:
            attackers = self._attackers(stack, payloads)
            _exchange(attackers, is_sending_only=not case.reads)
            if not case.reads:
                time.sleep(UNREAD_SECONDS)
        seconds = time.monotonic() - began
        time.sleep(case.watched_seconds)
        waits = self.innocent.waits()
        request_bytes = sum(map(len, payloads))
        return Cost(
            request_bytes=request_bytes,
            answer_bytes=sum(attacker.answer_bytes for attacker in attackers),
            seconds=seconds,
            cpu_ms=cpu_ms(self.process.pid) - used_ms,
            growth_bytes=self.subject.memory_bytes("VmHWM") - used_bytes - request_bytes,
            growth_bytes_max=GROWTH_BYTES_MAX + case.kept_bytes_max,
            waits=waits,
            unanswered=sum(case.reads and not attacker.is_answered for attacker in attackers),
        )

    def _attackers(self, stack, payloads):
        """Connections, logged in where that is needed."""
        connections = []
        for _ in payloads:
            port = self._attacked_port or self.process.port
            connections.append(stack.enter_context(socket.create_connection((self.process.host, port))))
            if self._guard:
                self._guard.log_in(connections[-1])
        return [Attacker(*each) for each in zip(connections, payloads, strict=True)]

    def end_amid(self, case, world):
        """Stop it in order while it works on a case; returns the seconds that this takes."""
        self.innocent.stop()
        with ExitStack() as stack:
            attackers = self._attackers(stack, case.payloads(world))
            _exchange(attackers, is_sending_only=True)
            began = time.monotonic()
            self.process.stop()
        self.process.process.stdout.close()
        return time.monotonic() - began

    def abandon(self):
        """End it by force; returns how it had ended before, and what it wrote."""
        before = self.process.process.poll()
        self.innocent.stop()
        self.process.kill()
        self.process.process.stdout.close()
        return f"exit code before it was killed: {before}; standard error:\n{self.process.stderr[-2000:]}"

    def serves_again(self):
        """Start a broker on its directory, and have it answer the innocent client."""
        process = start_broker(self._folder / "again", mode=self.mode, data=self._data, settings=self._settings)
        innocent = Innocent(process.port, process.pid)
        try:
            deadline = time.monotonic() + ANSWER_SECONDS_MAX
            while not (waits := innocent.waits()).requests:
                assert not waits.error, waits.error
                assert time.monotonic() < deadline, "it serves nobody"
                time.sleep(BASELINE_SECONDS)
        finally:
            innocent.stop()
            process.stop()
            process.process.stdout.close()


class Attacker:
    """One connection with one request, which does not block."""

    def __init__(self, connection, payload):
        self.socket = connection
        self.socket.setblocking(False)
        self.unsent = memoryview(LENGTH.pack(len(payload)) + payload)
        self.is_answered = False
        self.answer_bytes = 0
        self._length = bytearray()

    def send(self):
        try:
            self.unsent = self.unsent[self.socket.send(self.unsent[:RECEIVE_BYTES]) :]
        except OSError:  # closed by the broker: what it has answered is read
            self.unsent = self.unsent[:0]

    def receive(self):
        data = b""
        with suppress(OSError):
            data = self.socket.recv(RECEIVE_BYTES)
        self._length += data[: LENGTH.size - len(self._length)]
        self.answer_bytes += len(data)
        is_whole = len(self._length) == LENGTH.size and (
            self.answer_bytes >= LENGTH.size + LENGTH.unpack(self._length)[0]
        )
        self.is_answered = is_whole or not data


def _exchange(attackers, *, is_sending_only=False):
    """Send everything, and read all answers unless told otherwise."""
    deadline = time.monotonic() + ANSWER_SECONDS_MAX
    while time.monotonic() < deadline:
        with selectors.DefaultSelector() as selector:
            for attacker in attackers:
                waits = selectors.EVENT_WRITE * bool(attacker.unsent)
                waits |= selectors.EVENT_READ * (not is_sending_only and not attacker.is_answered)
                if waits:
                    selector.register(attacker.socket, waits, attacker)
            if not selector.get_map():
                return
            ready = selector.select(1.0)
        for key, events in ready:
            if events & selectors.EVENT_WRITE:
                key.data.send()
            if events & selectors.EVENT_READ:
                key.data.receive()
