"""One broker per mode for all tests of this folder: whatever one of them sends, the broker serves the next."""

import time
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs
import pytest

from tests.bad_input.raw_client import (
    RawClient,
    batch_of,
    create_topic,
    produce_answers,
    produce_request,
    wait_until,
)
from tests.conftest import BrokerProcess, start_broker

TOPIC = "bad-input"
PARTITIONS = 3
SETTINGS = [f"num.partitions={PARTITIONS}", "log.retention.ms=-1"]
"""Records are of 1970: with Kafka's seven days they would go when retention looks, half a minute after the start."""
PRODUCE_VERSION = 9
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": str(128 << 10)}
"""Of the C library: what is larger goes back to the system when it is freed. Left alone it learns to keep some 30 MB of
such, more or less of it as threads and times fall, and nobody could tell these from what a broker does not let go.
"""
REST_SECONDS = 0.1
REST_LOOKS = 20


@attrs.define
class Subject:
    """The broker under test and a client that does nothing wrong."""

    process: BrokerProcess
    healthy: RawClient
    stderr_seen: int = 0

    @property
    def port(self):
        return self.process.port

    def connect(self):
        return RawClient(self.process.port)

    def check_healthy(self):
        """The well-behaved client, connected all along, still produces; the broker had nothing to complain about."""
        response = self.healthy.ask(produce_request((0, batch_of(b"healthy"))), PRODUCE_VERSION)
        assert response is not None, "the healthy connection was closed"
        assert produce_answers(response) == [(0, 0)]
        assert self.process.process.poll() is None
        stderr, seen = self.process.stderr, self.stderr_seen
        self.stderr_seen = len(stderr)
        assert stderr[seen:] == ""

    def memory_bytes(self, name="VmRSS"):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return int(line.split()[1]) * 1024
        raise AssertionError(f"no {name}")

    def open_sockets(self):
        """Without the files of the journal, of which there are more as it grows."""
        links = []
        for path in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed since it was listed
                links.append(str(path.readlink()))
        return sum(link.startswith("socket:") for link in links)

    def wait_for_sockets(self, count):
        """Until no more than so many are open."""
        wait_until(lambda: self.open_sockets() <= count, "connections are still open")

    def memory_at_rest(self):
        """The least of several looks: what a thread reads for a client that is gone goes with the end of that."""
        least = self.memory_bytes()
        for _ in range(REST_LOOKS):
            time.sleep(REST_SECONDS / REST_LOOKS)
            least = min(least, self.memory_bytes())
        return least

    def wait_for_memory(self, bytes_max):
        """Until it takes no more; what it never lets go of it has at the end of the wait, too."""
        wait_until(lambda: self.memory_bytes() <= bytes_max, f"there is more left than {bytes_max} bytes")

    def reset_memory_peak(self):
        """Have VmHWM start again from what is used now."""
        Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")


@contextmanager
def running(directory, mode, arguments, settings):
    """A broker with the topic of these tests, and its healthy client."""
    process = start_broker(directory, mode=mode, arguments=arguments, settings=settings, environment=ALLOCATOR)
    try:
        create_topic(process.port, TOPIC)
        with RawClient(process.port) as healthy:
            yield Subject(process, healthy)
    finally:
        process.stop()
        process.process.stdout.close()


@pytest.fixture(scope="session", params=["classic", "pipelined"])
def running_broker(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp(f"bad-input-{request.param}")
    with running(directory, request.param, ["--flush", "os"], SETTINGS) as subject:
        yield subject


@pytest.fixture
def broker(running_broker):
    """The broker of a mode; afterwards nobody else was hurt."""
    yield running_broker
    running_broker.check_healthy()
