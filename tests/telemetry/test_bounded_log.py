"""The log of a broker is bounded whatever clients do, and omitted messages are counted."""

import io
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.telemetry.bounded_log import (
    CALL_SITES_MAX,
    CHARS_MAX,
    INTERVAL_SECONDS,
    LINES_MAX,
    PLACE,
    TRACEBACK_CHARS_MAX,
    BoundedHandler,
    BoundedLog,
)
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsRequest
from tests.crashes.wire_client import WireClient

LEFT_OUT = re.compile(r"the log omitted (\d+) similar lines? within 60 s: ")


def record(line=1, text="message", error=None):
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    return logging.LogRecord("broker", logging.WARNING, "broker.py", line, text, None, exc_info)


def raised(kind, text=""):
    with pytest.raises(kind) as caught:
        raise kind(text)
    return caught.value


def plain(_record, message, traceback):
    return message if traceback is None else f"{message}\n{traceback}"


class Written:
    """A handler that writes here, on a clock of its own."""

    def __init__(self):
        self.now = 0.0
        self.stream = io.StringIO()
        self.handler = BoundedHandler(self.stream, lambda: self.now, plain)

    def log(self, *args, **kwargs):
        self.handler.handle(record(*args, **kwargs))

    @property
    def lines(self):
        return self.stream.getvalue().splitlines()


def test_lines_of_one_call_site_beyond_the_bound_are_counted_and_summarised_after_the_interval():
    written = Written()
    for number in range(LINES_MAX + 7):
        written.log(text=f"a stranger failed {number}")
    assert len(written.lines) == LINES_MAX

    written.now = INTERVAL_SECONDS
    written.log(line=2, text="something else")
    assert written.lines[LINES_MAX:] == [
        f"the log omitted 7 similar lines within 60 s: a stranger failed {LINES_MAX + 6}",
        "something else",
    ]


def test_a_failure_has_one_traceback_in_an_interval_whatever_the_number_of_requests():
    written = Written()
    error = raised(ValueError, "bad bytes")
    for number in range(1_000):
        written.log(text=f"request {number} failed", error=error)
    assert written.stream.getvalue().count("Traceback") == 1
    assert written.lines[-1] == "ValueError: bad bytes"

    written.now = INTERVAL_SECONDS
    written.log(text="request 1000 failed", error=error)
    assert "the log omitted 999 similar lines within 60 s: request 999 failed: ValueError" in written.lines
    assert written.stream.getvalue().count("Traceback") == 2


def test_a_failing_place_is_logged_once_in_an_interval_however_often_clients_try_again():
    written = Written()
    for place in ("a-0", "a-1") * 5:
        it = record(text=f"{place} cannot be read")
        setattr(it, PLACE, place)
        written.handler.handle(it)
    assert written.lines == ["a-0 cannot be read", "a-1 cannot be read"]
    written.handler.close()
    assert written.lines[2:] == [f"the log omitted 4 similar lines within 60 s: a-{n} cannot be read" for n in (0, 1)]


def test_another_failure_at_the_same_call_site_has_its_own_traceback():
    written = Written()
    for error in (raised(ValueError), raised(KeyError), raised(ValueError)):
        written.log(error=error)
    assert written.stream.getvalue().count("Traceback") == 2


def test_the_last_omitted_messages_are_summarised_at_the_end():
    written = Written()
    for _ in range(LINES_MAX + 1):
        written.log()
    written.handler.close()
    assert written.lines[-1] == "the log omitted 1 similar line within 60 s: message"


def test_names_from_a_client_make_neither_a_further_nor_a_long_line():
    written = Written()
    written.log(text="x\nERROR forged\x1b[2J\u2028 " + "y" * 100_000)
    assert len(written.lines) == 1
    assert len(written.lines[0]) < CHARS_MAX + 50
    assert written.lines[0].startswith(r"x\nERROR forged\x1b[2J\u2028 yyy")


def test_a_traceback_that_quotes_a_client_is_cut_in_the_middle():
    written = Written()
    written.log(error=raised(ValueError, "z" * 100_000 + " its end"))
    text = written.stream.getvalue()
    assert len(text) < TRACEBACK_CHARS_MAX + 200
    assert "Traceback" in text
    assert text.endswith(" its end\n")


@given(st.lists(st.tuples(st.floats(0, 40), st.integers(0, 3), st.booleans()), max_size=400))
def test_every_record_is_written_or_counted_and_a_call_site_never_exceeds_its_bound(steps):
    """The bound holds in whatever rhythm they come; `seen` is cut into the intervals of each place."""
    log, now, out = BoundedLog(), 0.0, []
    error = raised(ValueError)
    for seconds, line, fails in steps:
        now += seconds / 40
        out += log.admit(record(line, error=error if fails else None), now)
    assert len(log._counts) <= 8
    out += log.summaries()
    told = [LEFT_OUT.match(each.getMessage()) for each in out]
    assert sum(1 if each is None else int(each[1]) for each in told) == len(steps)
    tracebacks = [each for each in out if each.exc_info]
    assert len(tracebacks) <= 4 * (1 + now // INTERVAL_SECONDS)


def test_the_number_of_counted_call_sites_is_bounded():
    log = BoundedLog()
    for line in range(3 * CALL_SITES_MAX):
        for _ in range(2):
            log.admit(record(line, error=raised(ValueError)), 0.0)
    assert len(log._counts) == CALL_SITES_MAX


def test_beyond_the_bound_the_oldest_call_site_is_summarised_early_and_the_others_stay_counted():
    log, error = BoundedLog(), raised(ValueError)
    for line in range(CALL_SITES_MAX):
        log.admit(record(line, error=error), 0.0)
    log.admit(record(0, error=error), 0.0)
    summary, further = log.admit(record(CALL_SITES_MAX, error=error), 0.0)
    assert LEFT_OUT.match(summary.getMessage())[1] == "1"
    assert further.lineno == CALL_SITES_MAX
    assert log.admit(record(CALL_SITES_MAX - 1, error=error), 0.0) == []


@pytest.mark.parametrize("mode", ["classic", "pipelined"])
def test_a_client_cannot_flood_standard_error_of_a_broker(broker_process, mode):
    """Unknown property names are logged, and a request may contain thousands of them."""
    broker = broker_process(mode=mode)
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource
    config = IncrementalAlterConfigsRequest.AlterableConfig
    with WireClient((broker.host, broker.port)) as client:
        for part in range(3):
            configs = [config(f"no.such\nERROR {part} {number}" + "x" * 50, 0, "1") for number in range(500)]
            response = client.ask(IncrementalAlterConfigsRequest([resource(4, "1", configs)]), 1)
            assert response.responses[0].error_code == 0
    broker.stop()
    lines = broker.stderr.splitlines()
    assert len(lines) == LINES_MAX + 1
    assert not any(line.startswith("ERROR") for line in lines)
    assert "the log omitted 900 similar lines" in lines[-1]
