"""The metrics port of a standby, before and after it takes over."""

import re
import time
import urllib.error
import urllib.request

from tests.node.test_archive_in_store import WAIT_SECONDS
from tests.node.test_standby_process import owner, standby, url

__all__ = ["owner", "standby", "url"]

METRICS = re.compile(r"^metrics on (http://\S+)/metrics$", re.MULTILINE)


def get(address):
    try:
        with urllib.request.urlopen(address, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_a_standby_is_healthy_and_is_ready_once_it_has_taken_over(owner, standby, url):
    waiting = standby(url, arguments=("--metrics", "0"))
    deadline = time.monotonic() + WAIT_SECONDS
    while not METRICS.search(waiting.stderr):
        assert time.monotonic() < deadline, waiting.stderr
        time.sleep(0.01)
    address = METRICS.findall(waiting.stderr)[-1]
    assert get(f"{address}/healthz") == (200, "ok\n")
    assert get(f"{address}/readyz") == (503, '{"error":"this broker stands by; its owner serves the clients"}')
    assert "\npipeline_broker_standby 1\n" in get(f"{address}/metrics")[1]
    owner.kill()
    assert waiting.broker() is not None
    address = METRICS.findall(waiting.stderr)[-1]
    assert get(f"{address}/readyz") == (200, "ok\n")
    assert "pipeline_broker_standby" not in get(f"{address}/metrics")[1]
