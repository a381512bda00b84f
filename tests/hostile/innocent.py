"""A client that does nothing wrong, in a process of its own: `python tests/hostile/innocent.py PORT PID`.

It produces a record every PACE_SECONDS. For each line on standard input it writes one: its worst wait since the line
before, the wait that goes on included. A wait by the clock is told beside what the broker makes of it: the time for
which the kernel had no processor for this process or the broker is taken off, because other programs of the machine are
no fault of the broker.
"""

import json
import os
import select
import socket
import struct
import sys
import tempfile
import time
from contextlib import suppress

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.records.batch import NewRecord, build_batch
from tests.bad_input.raw_client import answer_of, frame_of, produce_answers, produce_request
from tests.forks import start_python
from tests.waiting import wait_readable

TOPIC = "innocent"
PACE_SECONDS = 0.02
PRODUCE_VERSION = 9
ANSWER_SECONDS_MAX = 120.0


@attrs.frozen
class Waits:
    """The worst of some requests.

    Attributes:
        worst_ms: the longest wait that the broker made, see `made_by_the_broker_ms`.
        clock_ms: the longest wait by the clock.
        requests: how many were answered.
        error: of an answer that was none; empty when all were answered.
    """

    worst_ms: float
    clock_ms: float
    requests: int
    error: str


@attrs.frozen
class Scheduled:
    """What the kernel has given a process so far, by /proc/PID/task/TID/schedstat: thread -> (run ns, lacking ns)."""

    pid: int
    threads: dict

    @classmethod
    def of(cls, pid):
        found = {}
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - a Path takes longer, a hundred times a second
            schedstat = f"/proc/{pid}/task/{task}/schedstat"
            with suppress(OSError), open(schedstat, "rb", 0) as file:  # noqa: PTH123 - likewise; it may have ended
                run_ns, lacking_ns, _ = file.read().split()
                found[int(task)] = int(run_ns), int(lacking_ns)
        return cls(pid, found)

    def since(self, earlier):
        """How long its main thread has run, how long that lacked a processor, and another thread at most, in ns."""
        gone = {}
        for thread, (run_ns, lacking_ns) in self.threads.items():
            run_before_ns, lacking_before_ns = earlier.threads.get(thread, (0, 0))
            gone[thread] = run_ns - run_before_ns, lacking_ns - lacking_before_ns
        run_ns, lacking_ns = gone.pop(self.pid)
        return run_ns, lacking_ns, max((lacking for _, lacking in gone.values()), default=0)


def made_by_the_broker_ms(clock_ms, own, broker):
    """The part of a wait that is the broker's.

    While another thread of the broker holds Python's lock and lacks a processor, the main thread waits for it and lacks
    none. That is taken off too, but never what the main thread has run for.

    Args:
        clock_ms: the wait.
        own: what `Scheduled.since` says of the client.
        broker: likewise of the broker.
    """
    (_, own_lacking_ns, _), (run_ns, lacking_ns, others_lacking_ns) = own, broker
    rest_ms = clock_ms - (own_lacking_ns + lacking_ns) / 1e6
    return max(min(run_ns / 1e6, rest_ms), rest_ms - others_lacking_ns / 1e6)


class _Producing:
    """The loop of the process."""

    def __init__(self, port, broker_pid):
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pids = os.getpid(), broker_pid
        batch = build_batch([NewRecord(b"innocent", timestamp=time.time_ns() // 1_000_000)])
        self._request = produce_request((0, batch), topic=TOPIC)
        frame = frame_of(self._request, PRODUCE_VERSION)
        self._frame = struct.pack(">i", len(frame)) + frame
        self._received = bytearray()
        self._began = None
        self._clear()

    def _clear(self):
        self._worst_ms = self._clock_ms = 0.0
        self._requests, self._error = 0, ""

    def _scheduled(self):
        return [Scheduled.of(pid) for pid in self._pids]

    def run(self):
        due = time.monotonic()
        while True:
            readers = [sys.stdin] if self._error else [sys.stdin, self._socket]
            timeout = None if self._began or self._error else max(0.0, due - time.monotonic())
            ready, _, _ = select.select(readers, [], [], timeout)
            if self._socket in ready:
                self._receive()
            elif not ready:
                due = max(due + PACE_SECONDS, time.monotonic())
                self._began = (time.monotonic(), self._scheduled())
                self._socket.sendall(self._frame)
            if sys.stdin in ready:
                if not sys.stdin.readline():
                    return
                self._tell()

    def _receive(self):
        try:
            data = self._socket.recv(1 << 16)
        except OSError as error:
            self._error = repr(error)
            return
        if not data:
            self._error = "the connection was closed"
            return
        self._received += data
        if len(self._received) >= 4 and len(self._received) >= 4 + struct.unpack_from(">i", self._received)[0]:
            answer = answer_of(self._request, PRODUCE_VERSION, bytes(self._received[4:]))
            self._received.clear()
            self._note()
            self._requests += 1
            self._began = None
            (code,) = (code for _, code in produce_answers(answer))
            if code:
                self._error = ErrorCode(code).name

    def _note(self):
        began, before = self._began
        clock_ms = (time.monotonic() - began) * 1e3
        self._clock_ms = max(self._clock_ms, clock_ms)
        if clock_ms <= self._worst_ms:  # what the broker made of it is no more
            return
        own, broker = (now.since(then) for now, then in zip(self._scheduled(), before, strict=True))
        self._worst_ms = max(self._worst_ms, made_by_the_broker_ms(clock_ms, own, broker))

    def _tell(self):
        if self._began and not self._error:
            self._note()
        print(json.dumps([round(self._worst_ms, 1), round(self._clock_ms, 1), self._requests, self._error]), flush=True)
        self._clear()


class Innocent:
    """The process, as its parent sees it."""

    def __init__(self, port, broker_pid):
        questions, self._asking = os.pipe()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - until it is stopped
        with os.fdopen(questions, "rb") as stdin:
            self._process = start_python([port, broker_pid], self._errors, program=(__file__,), stdin=stdin)

    def waits(self):
        """Its worst since the last question."""
        os.write(self._asking, b"\n")
        assert wait_readable(self._process.stdout, ANSWER_SECONDS_MAX), "the innocent client says nothing"
        if not (line := self._process.stdout.readline()):
            self._errors.seek(0)
            raise AssertionError(f"the innocent client ended: {self._errors.read().decode()}")
        return Waits(*json.loads(line))

    def stop(self):
        os.close(self._asking)
        self._process.wait()
        self._process.stdout.close()
        self._errors.close()


if __name__ == "__main__":
    _Producing(int(sys.argv[1]), int(sys.argv[2])).run()
