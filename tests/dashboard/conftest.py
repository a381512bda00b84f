"""Requests and commits with stamps that a test chooses, in the form that the server reports."""

import pytest

from stages.request import Request, Send
from tests.dashboard.browsing import Browser
from tests.required import require_tool


class Origin:
    """The part of a connection that observers use."""

    def __init__(self, index):
        self.index = index
        self.id, self.peer = f"127.0.0.1:9092-10.0.0.1:{50_000 + index}-0-0", "10.0.0.1"


class CommitEnded:
    def __init__(self, entries, size_bytes, started_ns, written_ns, durable_ns):
        self.entries = [None] * entries
        self.size_bytes = size_bytes
        self.started_ns, self.written_ns, self.durable_ns = started_ns, written_ns, durable_ns


def _request(*, connection=0, sequence=0, api=0, version=9, received_ns=1_000, steps=(1, 1, 1, 1, 1, 1, 1), **fields):
    """Return an answered request; `steps` are the times between its stamps."""
    request = Request(Origin(connection), sequence, bytes(100), received_ns)
    names = ("dequeued_ns", "handled_ns", "durable_ns", "completed_ns", "released_ns", "send_started_ns", "sent_ns")
    at_ns = received_ns
    for name, step in zip(names, steps, strict=True):
        at_ns += step
        setattr(request, name, at_ns)
    request.decided_ns = request.submitted_ns = request.handled_ns
    request.api, request.version, request.result, request.depth = api, version, Send(b""), 1
    for name, value in fields.items():
        setattr(request, name, value)
    return request


@pytest.fixture(scope="session")
def request_ended():
    return _request


@pytest.fixture(scope="session")
def commit_ended():
    return CommitEnded


@pytest.fixture(scope="module")
def browser():
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = require_tool("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, webdriver.ChromeService(require_tool("chromedriver")))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
