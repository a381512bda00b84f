"""A broker process with `--log-format json`: every line of both its outputs is an object."""

import json

import pytest

from tests.conftest import READY_SECONDS_MAX, STOP_SECONDS_MAX, read_line, start_python


@pytest.fixture
def broker(tmp_path):
    stderr = tmp_path / "stderr"
    faults = tmp_path / "faults.toml"
    faults.write_text('[[rule]]\napi = "Produce"\ndrop = true\n', encoding="utf-8")
    arguments = [
        "serve",
        "--port",
        "0",
        "--data",
        str(tmp_path / "data"),
        "--log-format",
        "json",
        "--set",
        "log.cleaner.threads=2",
    ]
    with stderr.open("wb") as file:
        process = start_python([*arguments, "--metrics", "0", "--faults", str(faults)], file)
    yield process, stderr
    process.terminate()
    assert process.wait(STOP_SECONDS_MAX) == 0
    process.stdout.close()


def test_every_line_of_a_broker_is_json_with_time_and_level(broker):
    process, stderr = broker
    ready = json.loads(read_line(process, READY_SECONDS_MAX))
    lines = [json.loads(line) for line in stderr.read_text(encoding="utf-8").splitlines()]
    assert ready["message"].startswith("listening on 127.0.0.1:")
    assert [line["level"] for line in (ready, *lines)] == ["INFO", "WARNING", "WARNING", "INFO"]
    assert lines[0]["message"] == "log.cleaner.threads is accepted, but this broker does not act on it"
    assert lines[1]["message"] == "fault rule 1 is active: Produce: drop the answer"
    assert lines[2]["message"].startswith("metrics on http://127.0.0.1:")
    assert [set(line) for line in (ready, *lines)] == [{"time", "level", "logger", "message"}] * 4
