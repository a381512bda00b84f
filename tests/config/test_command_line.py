"""Errors and warnings of the command line about settings."""

from pathlib import Path

import pytest

from tests.forks import run_command

ROOT = Path(__file__).parents[2]


def serve(*arguments):
    return run_command("serve", "--port", "0", *arguments)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("num.io.threds=8", "did you mean num.io.threads?"),
        ("num.io.threads=0", "must be at least 1"),
        ("num.io.threads", "name=value"),
    ],
)
def test_a_wrong_setting_ends_with_one_line_and_2(setting, message, tmp_path):
    result = serve("--data", str(tmp_path / "data"), "--set", setting)
    assert result.returncode == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert message in line
    assert not (tmp_path / "data").exists()


def test_a_wrong_line_in_a_file_ends_with_one_line_and_2(tmp_path):
    (tmp_path / "broker.toml").write_text("num.io.threads = [")
    result = serve("--config", str(tmp_path / "broker.toml"))
    assert result.returncode == 2
    (line,) = result.stderr.splitlines()
    assert "broker.toml" in line


def test_a_property_without_effect_gives_one_warning_line(broker_process):
    broker = broker_process(settings=["log.cleaner.threads=2"])
    broker.stop()
    assert [line.partition(" ")[2] for line in broker.stderr.splitlines()] == [
        "WARNING pipeline_broker.config: log.cleaner.threads is accepted, but this broker does not act on it"
    ]
