"""Apache Kafka as a broker that is killed and started again over its data, like `BrokerUnderTest`."""

import contextlib
import socket
import subprocess
import time
from pathlib import Path

import attrs

from pipeline_broker.measure.experiment.kafka_process import KafkaSettings
from tests import kafka_tools
from tests.free_ports import free_port

START_SECONDS_MAX = 60.0
POLL_SECONDS = 0.1


@attrs.define
class KafkaUnderTest:
    directory: Path
    settings: tuple
    port: int = attrs.Factory(lambda: free_port(1))
    process: subprocess.Popen | None = None

    @property
    def address(self):
        return "127.0.0.1", self.port

    def start(self):
        config = self.directory / "server.properties"
        self.directory.mkdir(parents=True, exist_ok=True)
        java = [*kafka_tools.java_command(self.directory), "-cp", kafka_tools.class_path()]
        if not config.exists():
            pairs = tuple(setting.split("=", 1) for setting in self.settings)
            settings = KafkaSettings("kafka", self.directory / "data", settings=pairs)
            config.write_text(settings.properties(self.port, self.port + 1))
            formatting = ["kafka.tools.StorageTool", "format", "--cluster-id", "cGlwZWxpbmUtYnJva2Vycw", "--standalone"]
            subprocess.run([*java, *formatting, "--config", str(config)], check=True, capture_output=True)
        with (self.directory / "output").open("ab") as output:
            self.process = subprocess.Popen([*java, "kafka.Kafka", str(config)], stdout=output, stderr=output)
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self.process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(self.address, 1):
                return
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"Apache Kafka did not start: see {self.directory}")

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None
