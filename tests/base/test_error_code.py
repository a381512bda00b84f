"""Error codes, compared with those of Kafka's clients."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pipeline_broker.base.error_code import RETRIABLE, TEXTS, ErrorCode, text_of
from tests.kafka_tools import class_path, java_command, require_the_followed_kafka

PROGRAM = Path(__file__).with_name("ErrorCodes.java")


def test_codes_are_those_of_kafka(tmp_path):
    require_the_followed_kafka("javac")
    command = [*java_command(tmp_path), "-cp", class_path(), str(PROGRAM)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    kafka = [line.split() for line in done.stdout.splitlines()]
    assert {code.name: int(code) for code in ErrorCode} == {name: int(code) for name, code, _ in kafka}
    assert {code.name for code in RETRIABLE} == {name for name, _, is_retriable in kafka if is_retriable == "true"}


def test_every_text_is_one_sentence():
    for text in TEXTS.values():
        assert text[0].isupper()
        assert text.endswith(".")


def test_every_error_has_a_text():
    assert text_of(0) is None
    assert text_of(3) == TEXTS[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert text_of(ErrorCode.STALE_BROKER_EPOCH) == "STALE_BROKER_EPOCH"
    with pytest.raises(ValueError):
        text_of(9999)
