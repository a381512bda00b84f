"""The request log writes off the event loop, within bounds, and loses lines rather than requests."""

import json
import threading
import time
from datetime import datetime

import pytest

from pipeline_broker.apis.call import Session
from pipeline_broker.telemetry import request_log
from pipeline_broker.telemetry.request_log import RequestLog

NEVER = 60.0


@pytest.fixture
def make(answered):
    """Requests of Metadata that the log can show."""

    def make(**arguments):
        request = answered(api=3, version=12, committed=False, body=b"\0\1\0\0\0\0", **arguments)
        request.connection.session = Session("host", "TEST")
        request.connection.listener = "TEST"
        request.result = None
        return request

    return make


@pytest.fixture
def log(tmp_path):
    log = RequestLog(tmp_path / "log")
    log.is_on = True
    yield log
    log.close()


def wait_written(log, count):
    deadline = time.monotonic() + NEVER
    while log.written < count:
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


def lines(log):
    log.close()
    return [json.loads(line) for line in log.path.read_text(encoding="utf-8").splitlines()]


class Gate:
    """A path that opens when it may: the writer waits until then."""

    def __init__(self, path):
        self.path = path
        self.is_open = threading.Event()

    def __fspath__(self):
        assert self.is_open.wait(NEVER)
        return str(self.path)


def test_each_request_has_a_line_in_order_and_a_dropped_one_too(log, make):
    for number in range(5):
        log.request_ended(make(index=number))
    log.request_dropped(make(index=5))

    assert [line["connection"] for line in lines(log)] == [f"connection-{number}" for number in range(6)]
    assert (log.written, log.dropped) == (6, 0)


def test_a_line_is_readable_once_no_other_waits(log, make):
    log.request_ended(make(index=4))
    wait_written(log, 1)
    assert json.loads(log.path.read_text(encoding="utf-8"))["connection"] == "connection-4"


def test_a_line_says_when_its_request_ended(log, make):
    before = time.time()
    log.request_dropped(make())
    (line,) = lines(log)
    assert before - 0.001 <= datetime.fromisoformat(line["time"]).timestamp() <= time.time()


def test_a_renamed_file_is_created_again(log, make, monkeypatch):
    """As logrotate does it."""
    monkeypatch.setattr(request_log, "RENAME_CHECK_SECONDS", 0.0)
    for index, name in enumerate(("first", "second", None)):
        log.request_ended(make(index=index))
        wait_written(log, index + 1)
        if name:
            log.path.rename(log.path.with_name(name))

    assert [line["connection"] for line in lines(log)] == ["connection-2"]
    rotated = [json.loads(log.path.with_name(name).read_text())["connection"] for name in ("first", "second")]
    assert rotated == ["connection-0", "connection-1"]


def test_a_log_that_is_off_starts_no_thread_and_opens_no_file(log, make):
    log.is_on = False
    log.request_ended(make())
    log.close()

    assert not log.path.exists()


def test_a_request_that_arrived_before_the_log_began_has_no_line(log, make):
    """Its stamps are not complete."""
    request = make()
    request.dequeued_ns = 0
    log.request_ended(request)
    unread = make()
    unread.connection.session = None
    log.request_ended(unread)
    log.close()

    assert not log.path.exists()


def test_requests_beyond_the_bound_have_no_line_and_are_counted(log, make, monkeypatch):
    monkeypatch.setattr(request_log, "REQUESTS_MAX", 3)
    gate = log.path = Gate(log.path)
    for number in range(5):
        log.request_ended(make(index=number))
    assert log.dropped == 2
    gate.is_open.set()
    log.close()
    log.path = gate.path

    assert len(lines(log)) == log.written == 3


def test_bytes_beyond_the_bound_are_counted_but_one_large_request_passes_alone(log, make, monkeypatch):
    monkeypatch.setattr(request_log, "BYTES_MAX", 10)
    gate = log.path = Gate(log.path)
    for number in range(3):
        log.request_ended(make(index=number))
    assert log.dropped == 2
    gate.is_open.set()
    log.close()
    log.path = gate.path

    assert [line["connection"] for line in lines(log)] == ["connection-0"]


def test_a_failing_disk_loses_lines_and_is_logged_once(log, make, caplog):
    log.path = log.path / "no" / "such"
    for _ in range(3):
        log.request_ended(make())
    log.close()

    assert (log.written, log.dropped) == (0, 3)
    assert [
        record.message.startswith("the request log lost a line, and may lose more: cannot write")
        for record in caplog.records
    ] == [True]


def test_a_request_that_cannot_be_formatted_loses_only_its_own_line(log, make, caplog):
    broken = make()
    broken.frame = broken.frame[:12]
    log.request_ended(broken)
    log.request_ended(make(index=1))

    assert [line["connection"] for line in lines(log)] == ["connection-1"]
    assert log.dropped == 1
    assert "cannot format a request" in caplog.text


def test_a_disk_that_fails_again_is_logged_again(log, make, caplog):
    place = log.path
    for is_failing in (True, False, True):
        log.path = place / "no" / "such" if is_failing else place
        log.request_ended(make())
        log.close()
        log.is_on = True

    assert (log.written, log.dropped) == (1, 2)
    assert len(caplog.records) == 2


def test_requests_without_a_line_free_their_space_in_the_queue(log, make, monkeypatch):
    monkeypatch.setattr(request_log, "BYTES_MAX", 10)
    place = log.path
    unshown, unwritten = make(index=0), make(index=1)
    unshown.frame = unshown.frame[:12]
    for request, path in ((unshown, place), (unwritten, place / "no" / "such"), (make(index=2), place)):
        log.path = path
        log.request_ended(request)
        log.close()
        log.is_on = True

    assert [line["connection"] for line in lines(log)] == ["connection-2"]
    assert log.dropped == 2


def test_a_log_appends_to_its_file_and_can_begin_again(log, make):
    log.request_ended(make(index=0))
    assert len(lines(log)) == 1
    log.is_on = True
    log.request_ended(make(index=1))

    assert [line["connection"] for line in lines(log)] == ["connection-0", "connection-1"]
