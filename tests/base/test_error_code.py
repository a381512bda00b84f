"""Error codes, compared with kio."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from pipeline_broker.base.error_code import RETRIABLE, TEXTS, ErrorCode, text_of


def test_codes_agree_with_kio():
    assert {code.name.lower(): int(code) for code in ErrorCode} == {code.name: code.value for code in KioErrorCode}
    assert {code.name.lower() for code in RETRIABLE} == {code.name for code in KioErrorCode if code.retriable}


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
