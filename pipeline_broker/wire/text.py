"""Decoding of text that may not be UTF-8, as in Java.

Each malformed sequence becomes U+FFFD, as in Apache Kafka, so that a name has the same meaning in both brokers.
"""

from __future__ import annotations

import re
from typing import Final

from pipeline_broker.wire.primitives import cut_text

__all__ = ["REPLACEMENT", "replaced_text", "text_of"]

REPLACEMENT: Final = "\ufffd"
# Java replaces an encoded surrogate (CESU-8) once; Python replaces each of its bytes.
_SURROGATE: Final = re.compile(r"\xed[\xa0-\xbf][\x80-\xbf]?")
_ONE_MALFORMED: Final = "\xff"
# Maps each byte to one character, so that regular expressions work on bytes.
_BYTES: Final = "latin-1"


def text_of(data: bytes) -> str:
    """Decode text, replacing each malformed sequence by U+FFFD."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return replaced_text(data)


def replaced_text(data: bytes) -> str:
    """Decode malformed text, replacing each malformed sequence by U+FFFD.

    The replacements may make the text longer. It is truncated to STRING_SIZE_MAX bytes.
    """
    # Without a Python loop over the bytes: a client may send a whole request of malformed text.
    text = _SURROGATE.sub(_ONE_MALFORMED, data.decode(_BYTES)).encode(_BYTES).decode(errors="replace")
    return cut_text(text.encode()).decode()
