"""The metrics port of a standby, before and after it takes over."""

import re
import time
import urllib.error
import urllib.request

from tests.node.test_archive_in_store import WAIT_SECONDS
from tests.node.test_standby_process import SETTING, owner, standby, url
from tests.node.test_wal_in_store import on_objects

__all__ = ["owner", "standby", "url"]

METRICS = re.compile(r"^metrics on (http://\S+)/metrics$", re.MULTILINE)


def wait_for(standby, pattern):
    deadline = time.monotonic() + WAIT_SECONDS
    while not re.search(pattern, standby.stderr, re.MULTILINE):
        assert time.monotonic() < deadline, standby.stderr
        time.sleep(0.01)


def get(address):
    try:
        with urllib.request.urlopen(address, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_standby_beside_its_owner_waits_without_the_metrics_port_that_the_owner_has(broker_process, standby, url):
    owner = broker_process(arguments=[*on_objects(url, *SETTING), "--metrics", "0"])
    (address,) = METRICS.findall(owner.stderr)
    port = address.rpartition(":")[2]
    waiting = standby(url, arguments=("--metrics", port))
    wait_for(waiting, "Address already in use.*; this standby has no health checks$")
    owner.kill()
    assert waiting.broker() is not None
    assert get(f"{address}/readyz") == (200, "ok\n")


def test_a_standby_is_healthy_and_is_ready_once_it_has_taken_over(owner, standby, url):
    waiting = standby(url, arguments=("--metrics", "0"))
    wait_for(waiting, METRICS.pattern)
    address = METRICS.findall(waiting.stderr)[-1]
    assert get(f"{address}/healthz") == (200, "ok\n")
    assert get(f"{address}/readyz") == (503, '{"error":"this broker stands by; its owner serves the clients"}')
    assert "\npipeline_broker_standby 1\n" in get(f"{address}/metrics")[1]
    owner.kill()
    assert waiting.broker() is not None
    address = METRICS.findall(waiting.stderr)[-1]
    assert get(f"{address}/readyz") == (200, "ok\n")
    assert "pipeline_broker_standby" not in get(f"{address}/metrics")[1]
