"""Lines of the log have a time and a level, as text and as JSON."""

import io
import json
import logging
import re

import pytest

from pipeline_broker.telemetry.bounded_log import CHARS_MAX, BoundedHandler
from pipeline_broker.telemetry.log_lines import LINES, announced, announcement, of_broker

TIME = r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d\d\dZ"


def written(log_format, text="a client failed", error=None):
    stream = io.StringIO()
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    record = logging.LogRecord("pipeline_broker.apis", logging.WARNING, "a.py", 1, text, None, exc_info)
    record.created = 1_796_040_000.1239
    BoundedHandler(stream, line=LINES[log_format]).handle(record)
    return stream.getvalue()


def test_a_line_of_text_begins_with_time_and_level():
    assert written("text") == "2026-11-30T12:00:00.123Z WARNING pipeline_broker.apis: a client failed\n"


def test_a_line_of_json_has_the_same_fields():
    assert json.loads(written("json")) == {
        "time": "2026-11-30T12:00:00.123Z",
        "level": "WARNING",
        "logger": "pipeline_broker.apis",
        "message": "a client failed",
    }


@pytest.mark.parametrize("text", ['a "name"\n{"level": "ERROR"}\u2028', "é" * (CHARS_MAX + 1)])
def test_a_name_from_a_client_forges_no_line_of_json_and_breaks_none(text):
    (line,) = written("json", text).splitlines()
    assert json.loads(line)["level"] == "WARNING"


def test_a_traceback_is_a_field_of_json():
    with pytest.raises(ValueError, match="why") as caught:
        int("why")
    (line,) = written("json", error=caught.value).splitlines()
    _, *traceback = written("text", error=caught.value).splitlines()
    assert json.loads(line)["traceback"].splitlines() == traceback
    assert traceback[-1].startswith("ValueError: ")


def test_an_announcement_is_plain_as_text_and_a_line_of_the_log_as_json():
    assert announcement("listening on 127.0.0.1:9092", "text") == "listening on 127.0.0.1:9092"
    line = json.loads(announcement("listening on 127.0.0.1:9092", "json"))
    assert re.fullmatch(TIME, line.pop("time"))
    assert line == {"level": "INFO", "logger": "pipeline_broker", "message": "listening on 127.0.0.1:9092"}


@pytest.mark.parametrize("log_format", LINES)
def test_an_announcement_is_read_back(log_format):
    assert announced(announcement("listening on 127.0.0.1:9092", log_format)) == "listening on 127.0.0.1:9092"


@pytest.mark.parametrize("line", ["", "{", "{}", '{"message"', "Error: no", "{" * 100_000, '["message"]'])
def test_another_line_is_read_as_it_is(line):
    assert announced(line) == line


def test_a_line_of_a_broker_begins_with_its_number_and_stays_json():
    assert of_broker("Error: no", 2) == "[2] Error: no"
    assert json.loads(of_broker(announcement("a", "json"), 2)).items() >= {"broker": 2, "message": "a"}.items()
