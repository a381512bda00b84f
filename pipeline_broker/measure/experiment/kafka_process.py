"""Apache Kafka as a child process, for comparison: a broker and controller, or a further broker, on 127.0.0.1.

It has free ports and Kafka's default settings, except that one node cannot replicate. Its jars are downloaded from
Maven Central once, into the user's cache.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import attrs

from pipeline_broker.measure.experiment.broker_process import DRAIN_S_MAX, ExperimentError, last_line

DEFAULT_VERSION = "4.4.0"
VERSION = os.environ.get("KAFKA_VERSION") or DEFAULT_VERSION
"""The version of Apache Kafka: `KAFKA_VERSION` chooses another one than that which this broker follows."""
SLF4J_VERSION = "2.25.4"
READY_S_MAX = 90.0
FETCH_S_MAX = 1_200.0
HEAP = "1g"
"""The default of Apache Kafka."""
_INSTEAD = "and give its address with --against HOST:PORT"
_GROUP = "org.apache.kafka"
_POLL_S = 0.2
_CLUSTER_ID = "cGlwZWxpbmUtYnJva2Vycw"


@attrs.frozen(slots=True)
class KafkaSettings:
    """The settings of one Apache Kafka process.

    Attributes:
        mode: its name in the results.
        data: its folder, which must not exist yet.
        is_synced: flushes each message to the disk before it is acknowledged; otherwise it stays in the page cache.
        node_id: its id in the cluster.
        controller: HOST:PORT of the controller that this broker joins; None to be the controller, too.
        settings: further settings, which override the others.
    """

    mode: str
    data: Path
    is_synced: bool = False
    node_id: int = 1
    controller: str | None = None
    settings: tuple[tuple[str, str], ...] = ()

    def start(self) -> "KafkaProcess":
        return KafkaProcess(self)

    def properties(self, port: int, controller_port: int) -> str:
        listeners, roles = f"PLAINTEXT://127.0.0.1:{port}", "broker"
        if self.controller is None:
            listeners, roles = f"{listeners},CONTROLLER://127.0.0.1:{controller_port}", "broker,controller"
        lines = [
            f"process.roles={roles}",
            f"node.id={self.node_id}",
            f"listeners={listeners}",
            f"advertised.listeners={listeners}",
            "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "controller.listener.names=CONTROLLER",
            f"controller.quorum.bootstrap.servers={self.controller or f'127.0.0.1:{controller_port}'}",
            "inter.broker.listener.name=PLAINTEXT",
            f"log.dirs={self.data / 'log'}",
            "offsets.topic.replication.factor=1",
            "transaction.state.log.replication.factor=1",
            "transaction.state.log.min.isr=1",
            "share.coordinator.state.topic.replication.factor=1",
            "share.coordinator.state.topic.min.isr=1",
        ]
        if self.is_synced:
            lines.append("log.flush.interval.messages=1")
        lines += [f"{name}={value}" for name, value in self.settings]
        return "\n".join(lines) + "\n"


class KafkaProcess:
    trace = None

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        jars = fetch_jars()
        settings.data.mkdir(parents=True)
        self.host = "127.0.0.1"
        self.port, controller_port = free_ports(2)
        self.controller = settings.controller or f"{self.host}:{controller_port}"
        self._errors_path = settings.data.with_suffix(".log")
        config = settings.data / "server.properties"
        config.write_text(settings.properties(self.port, controller_port))
        with self._errors_path.open("wb") as output:
            arguments = ["format", "--cluster-id", _CLUSTER_ID, "--config", str(config)]
            if settings.controller is None:
                arguments.append("--standalone")
            format_command = _java(jars, "256m", "kafka.tools.StorageTool", *arguments)
            if subprocess.call(format_command, stdout=output, stderr=output):  # noqa: S603 - the user's own Java
                raise ExperimentError(f"Apache Kafka's storage could not be formatted: {last_line(self._errors_path)}")
            self._process = subprocess.Popen(  # noqa: S603 - see above
                _java(jars, HEAP, "kafka.Kafka", str(config)),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> None:
        """Wait until its port accepts a connection.

        Raises:
            ExperimentError: the process exits, or the port is not open after `READY_S_MAX` seconds.
        """
        deadline = time.monotonic() + READY_S_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 1):
                return
            time.sleep(_POLL_S)
        raise ExperimentError(f"Apache Kafka did not start: {last_line(self._errors_path)}")

    def terminate(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def stop(self) -> None:
        self.terminate()
        try:
            self._process.wait(DRAIN_S_MAX)
        # Neither a timeout nor an exit code fails the experiment: Kafka's shutdown is not measured.
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def fetch_jars(program: str = "kafka") -> Path:
    """Return the folder with the jars of `kafka` or `kafka-streams`, downloaded if necessary.

    Raises:
        ExperimentError: Java or Maven is missing, or Maven failed.
    """
    if shutil.which("java") is None:
        raise ExperimentError(
            f"Apache Kafka needs Java 17 or newer: install it, or start Apache Kafka elsewhere {_INSTEAD}"
        )
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pipeline-broker"
    jars = cache / f"{program}-{VERSION}"
    if jars.is_dir():
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise ExperimentError(
            f"downloading Apache Kafka needs Maven (mvn): install it, or start Apache Kafka elsewhere {_INSTEAD}"
        )
    cache.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=".fetch-", dir=cache))
    try:
        (work / "pom.xml").write_text(_pom(program))
        command = [maven, "-q", "-B", "-f", str(work / "pom.xml"), "dependency:copy-dependencies"]
        command.append(f"-DoutputDirectory={work / 'jars'}")
        done = subprocess.run(  # noqa: S603 - the user's own Maven
            command, capture_output=True, text=True, timeout=FETCH_S_MAX, check=False
        )
        if done.returncode:
            lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            raise ExperimentError(
                f"Maven could not download Apache Kafka: {lines[0] if lines else f'exit code {done.returncode}'}"
            )
        # The rename makes the folder appear complete or not at all. It fails if another process was faster.
        with contextlib.suppress(OSError):
            (work / "jars").rename(jars)
    except subprocess.TimeoutExpired:
        raise ExperimentError(f"Maven did not download Apache Kafka within {FETCH_S_MAX:g} s: try again") from None
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return jars


def _java(jars: Path, heap: str, *arguments: str) -> list[str]:
    java = shutil.which("java") or "java"
    options = [f"-Xms{heap}", f"-Xmx{heap}", "-XX:+UseG1GC", "-Dlog4j2.level=ERROR"]
    return [java, *options, "-cp", f"{jars}/*", *arguments]


def _pom(program: str) -> str:
    dependencies = _dependency(_GROUP, program, VERSION) if program == "kafka-streams" else _broker_dependencies()
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>local</groupId><artifactId>kafka</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def _broker_dependencies() -> str:
    connect = f"<groupId>{_GROUP}</groupId><artifactId>connect-runtime</artifactId>"
    excluded = f"<exclusions><exclusion>{connect}</exclusion></exclusions>"
    return (
        _dependency(_GROUP, "kafka_2.13", VERSION)
        + _dependency(_GROUP, "kafka-tools", VERSION, excluded)
        + _dependency("org.apache.logging.log4j", "log4j-slf4j-impl", SLF4J_VERSION)
    )


def _dependency(group: str, artifact: str, version: str, more: str = "") -> str:
    names = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    return f"<dependency>{names}{more}</dependency>"


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        # All listeners stay open until the end, otherwise the system could assign one port twice.
        ports = []
        for _ in range(count):
            listener = stack.enter_context(socket.socket())
            listener.bind(("127.0.0.1", 0))
            ports.append(int(listener.getsockname()[1]))
        return ports
