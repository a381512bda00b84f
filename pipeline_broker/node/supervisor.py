"""The supervisor of a cluster: runs one broker process for each core of a machine, and starts those again that end."""

from __future__ import annotations

import functools
import logging
import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import attrs
import trio

from pipeline_broker.base.terminal import Terminal
from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.node.cluster_directory import become_cluster, locked
from pipeline_broker.node.cluster_role import CONTROLLER_ID
from pipeline_broker.node.errors import StartError
from pipeline_broker.node.file_renewal import FileRenewal
from pipeline_broker.node.heartbeat import BEAT_SECONDS, HUNG_SECONDS, Silence
from pipeline_broker.node.machine_metrics import BrokerState, MachineMetrics
from pipeline_broker.node.service_manager import NOTIFY_VARIABLE, notify
from pipeline_broker.security.http_security import NO_SECURITY, HttpSecurity
from pipeline_broker.telemetry.log_lines import announced, of_broker

__all__ = ["DEATHS_MAX", "DEATHS_SECONDS", "BrokerCommand", "MetricsAddress", "supervise"]

logger = logging.getLogger(__name__)

DEATHS_MAX = 5
DEATHS_SECONDS = 60.0
"""A broker that ends this often within this time stays down until SIGHUP."""
RESTART_SECONDS = 0.05
LINE_BYTES_MAX = 64 * 1024
METRICS_LINE = "metrics on "
READY_LINE = "listening on "

Announce = Callable[[str], None]
BrokerCommand = Callable[[int, int], Sequence[str]]
"""Returns the command line of a broker, given its id and the port of its first listener; 0 is any free port."""


@attrs.define(eq=False)
class _BrokerProcess:
    """One broker of the machine.

    Attributes:
        port: the port of its first listener, which it keeps over restarts.
        is_ready: True while it serves.
        is_down: True while it stays down.
        ends: number of its ends.
        deaths: times of its latest ends.
    """

    node_id: int
    port: int
    process: trio.Process | None = None
    is_ready: bool = False
    ready_line: str = ""
    is_down: bool = False
    last_error: str = ""
    ends: int = 0
    deaths: deque[float] = attrs.Factory(lambda: deque(maxlen=DEATHS_MAX))
    silence: Silence = attrs.Factory(Silence)

    @property
    def is_up(self) -> bool:
        return self.is_ready and not self.silence.is_long

    def heard(self) -> None:
        if self.silence.is_long:
            logger.warning("broker %d answers again after %.0f s", self.node_id, self.silence.seconds)
        self.silence = Silence()

    def check(self) -> None:
        if self.process is None or not self.is_ready:  # a startup may block the event loop for long
            return
        verdict = self.silence.count_check()
        if verdict == "silent":
            logger.warning(
                "broker %d (process %d) has not answered for %.0f s. It is killed and started again after %.0f s",
                self.node_id,
                self.process.pid,
                self.silence.seconds,
                HUNG_SECONDS,
            )
        elif verdict == "hung":
            logger.error("broker %d has not answered for %.0f s and is killed", self.node_id, self.silence.seconds)
            self.process.kill()


@attrs.frozen
class MetricsAddress:
    host: str
    port: int
    names: tuple[str, ...] = ()  # host names that requests may use, in addition to addresses


class _Supervisor:
    def __init__(
        self,
        command: BrokerCommand,
        brokers: int,
        port: int,
        metrics: MetricsAddress | None,
        announce: Announce,
        security: HttpSecurity,
    ) -> None:
        self._command = command
        self._announce = announce
        self._metrics_address, self._security = metrics, security
        self._metrics = MachineMetrics(security)
        self._renewal = FileRenewal(lambda: security.files)
        self.brokers = [_BrokerProcess(number, port + number - 1 if port else 0) for number in range(1, brokers + 1)]
        self._stopping = trio.Event()
        self._is_serving = False
        self._changed = trio.lowlevel.ParkingLot()  # woken when a broker ends, or must be started or stopped

    async def run(self, on_ready: Callable[[str], None], data: Path) -> int:
        """Run the brokers until a signal, or until all of them stay down; return the exit code.

        Raises:
            StartError: a broker cannot start.
        """
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._follow_signals, signals)
                nursery.start_soon(self._check_regularly)
                if self._security.files:
                    nursery.start_soon(self._renewal.run)
                await self._start_metrics(nursery)
                # The others join the controller, so it is the first.
                await nursery.start(self._keep, self.brokers[0])
                async with trio.open_nursery() as others:
                    for broker in self.brokers[1:]:
                        others.start_soon(nursery.start, functools.partial(self._keep, broker))
                if not self._stopping.is_set():
                    self._is_serving = True
                    on_ready(self._ready_line(data))
                    notify("READY=1")
                await self._wait_ended(self.brokers)
                nursery.cancel_scope.cancel()
        return 0 if self._stopping.is_set() else 1

    async def _start_metrics(self, nursery: trio.Nursery) -> None:
        address = self._metrics_address
        if address is None:
            return
        run = functools.partial(self._metrics.run, not_ready=self._not_ready, states=self._states)
        port = await nursery.start(run, address.host, address.port, address.names)
        self._announce(f"{METRICS_LINE}{self._security.scheme}://{address.host}:{port}/metrics")

    def _not_ready(self) -> str | None:
        missing = [
            f"{broker.node_id} (not answering)" if broker.is_ready else str(broker.node_id)
            for broker in self.brokers
            if not broker.is_up
        ]
        return f"without broker {', '.join(missing)}" if missing else None

    def _states(self) -> dict[int, BrokerState]:
        return {broker.node_id: BrokerState(broker.is_up, broker.ends) for broker in self.brokers}

    async def _check_regularly(self) -> None:
        while True:
            await trio.sleep(BEAT_SECONDS)
            for broker in self.brokers:
                broker.check()

    def _ready_line(self, data: Path) -> str:
        first, _, _ = self.brokers[0].ready_line.partition(" data=")
        return f"{first} data={data} brokers={len(self.brokers)}"

    async def _wait_ended(self, brokers: Sequence[_BrokerProcess]) -> None:
        while not all(broker.is_down or (self._stopping.is_set() and broker.process is None) for broker in brokers):
            await self._changed.park()

    async def _follow_signals(self, signals: AsyncIterator[int]) -> None:
        terminal = Terminal()
        async for number in signals:
            if number == signal.SIGHUP and not terminal.is_closed:
                self._send_hangup()
                continue
            self._stopping.set()
            self._changed.unpark_all()
            notify("STOPPING=1")
            # The controller last: the others may need it for their last requests.
            for broker in self.brokers[1:]:
                self._terminate(broker)
            await self._wait_ended(self.brokers[1:])
            self._terminate(self.brokers[0])

    def _send_hangup(self) -> None:
        self._renewal.request()
        for broker in self.brokers:
            if broker.is_down:
                logger.warning("broker %d is started again on SIGHUP", broker.node_id)
                broker.is_down = False
                broker.deaths.clear()
                self._changed.unpark_all()
            # A broker that is starting reads its certificates anyway, and may not handle the signal yet.
            if broker.process is not None and broker.is_ready:
                broker.process.send_signal(signal.SIGHUP)

    @staticmethod
    def _terminate(broker: _BrokerProcess) -> None:
        if broker.process is not None:
            broker.process.send_signal(signal.SIGTERM)

    async def _keep(
        self, broker: _BrokerProcess, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED
    ) -> None:
        was_ready = False

        def ready() -> None:
            nonlocal was_ready
            if not was_ready:
                was_ready = True
                task_status.started()

        while not self._stopping.is_set():
            code = await self._run_once(broker, ready)
            broker.process, broker.is_ready = None, False
            self._changed.unpark_all()
            if self._stopping.is_set():
                break
            if not was_ready and not self._is_serving:
                raise StartError(broker.last_error or f"broker {broker.node_id} ended with exit code {code}")
            broker.ends += 1
            broker.deaths.append(trio.current_time())
            if len(broker.deaths) == DEATHS_MAX and broker.deaths[-1] - broker.deaths[0] < DEATHS_SECONDS:
                await self._stay_down(broker)
                continue
            logger.warning("broker %d ended with exit code %d and is started again", broker.node_id, code)
            await trio.sleep(RESTART_SECONDS)
        ready()

    async def _stay_down(self, broker: _BrokerProcess) -> None:
        broker.is_down = True
        self._changed.unpark_all()
        logger.error(
            "broker %d ended %d times in %.0f s and stays down. Correct the cause, which its lines above name, and"
            " start it with `kill -HUP %d`",
            broker.node_id,
            DEATHS_MAX,
            DEATHS_SECONDS,
            os.getpid(),
        )
        while broker.is_down:
            await self._changed.park()

    async def _run_once(self, broker: _BrokerProcess, ready: Callable[[], None]) -> int:
        process = broker.process = await trio.lowlevel.open_process(
            self._command(broker.node_id, broker.port),
            stdin=subprocess.PIPE,  # its end tells the broker that the supervisor has ended
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name != NOTIFY_VARIABLE},
            start_new_session=True,  # Ctrl-C in a terminal must reach the supervisor alone, which stops all in order
        )
        broker.silence = Silence()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._read_output, broker, process, ready)
                nursery.start_soon(self._read_errors, broker, process)
                return await process.wait()
        finally:
            if process.returncode is None:
                process.kill()

    async def _read_output(self, broker: _BrokerProcess, process: trio.Process, ready: Callable[[], None]) -> None:
        assert process.stdout is not None, "a pipe"
        async for line in _lines(process.stdout):
            broker.heard()
            message = announced(line)
            if message.startswith(READY_LINE):
                address, _, _ = message.removeprefix(READY_LINE).partition(" ")
                broker.port, broker.ready_line = int(address.rpartition(":")[2]), message
                broker.is_ready = True
                ready()

    async def _read_errors(self, broker: _BrokerProcess, process: trio.Process) -> None:
        assert process.stderr is not None, "a pipe"
        async for line in _lines(process.stderr):
            message = announced(line)
            if message.startswith(METRICS_LINE):
                self._metrics.urls[broker.node_id] = message.removeprefix(METRICS_LINE)
                continue
            if message.startswith("Error: "):
                broker.last_error = message.removeprefix("Error: ")
            if self._is_serving or not message.startswith("Error: "):
                sys.stderr.write(f"{of_broker(line, broker.node_id)}\n")
                sys.stderr.flush()


async def _lines(stream: trio.abc.ReceiveStream) -> AsyncIterator[str]:
    left = b""
    async for chunk in stream:
        *whole, left = (left + chunk).split(b"\n")
        for line in whole:
            yield line.decode(errors="replace")
        if len(left) > LINE_BYTES_MAX:
            yield left.decode(errors="replace")
            left = b""
    if left:
        yield left.decode(errors="replace")


def supervise(
    command: BrokerCommand,
    data: Path,
    brokers: int,
    port: int,
    on_ready: Callable[[str], None],
    announce: Announce,
    metrics: MetricsAddress | None = None,
    security: HttpSecurity = NO_SECURITY,
) -> int:
    """Run a cluster of brokers on this machine, and return its exit code.

    Args:
        data: directory of the cluster.
        port: port of broker 1; the others get the ports after it. 0 lets the system choose.
        on_ready: called with the ready line, once all brokers serve.
        announce: called with each other line about the start.
        metrics: address of the metrics of all brokers; None for no endpoint.
        security: TLS and users of this endpoint.

    Raises:
        StartError: a broker cannot start, or the directory is not usable.
    """
    with locked(data):
        if become_cluster(data, brokers):
            announce(
                f"the data of the single broker is now that of broker {CONTROLLER_ID}; new topics and partitions are"
                " spread over all brokers"
            )
        try:
            return trio.run(_Supervisor(command, brokers, port, metrics, announce, security).run, on_ready, data)
        except* UnavailableError as errors:
            raise StartError(str(_first(errors))) from None


def _first(errors: BaseExceptionGroup[UnavailableError]) -> BaseException:
    first: BaseException = errors
    while isinstance(first, BaseExceptionGroup):
        first = first.exceptions[0]
    return first
