"""Text of peers that is not UTF-8, read like Java reads it.

Rules of this file: each malformed sequence becomes U+FFFD, as in Apache Kafka, so a name has the same meaning in both.
Text never becomes longer than a string may be. No loop over bytes in Python: all of a request may be malformed.
"""

from __future__ import annotations

import re
from typing import Final

from pipeline_broker.wire.primitives import cut_text

__all__ = ["REPLACEMENT", "replaced_text", "text_of"]

REPLACEMENT: Final = "\ufffd"
_SURROGATE: Final = re.compile(r"\xed[\xa0-\xbf][\x80-\xbf]?")
"""For Java an encoded surrogate (CESU-8) is one malformed sequence, for Python each of its bytes is one."""
_ONE_MALFORMED: Final = "\xff"
_BYTES: Final = "latin-1"
"""Bytes as characters: the encoding that has one for each."""


def text_of(data: bytes) -> str:
    """Decode text, replacing malformed sequences."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return replaced_text(data)


def replaced_text(data: bytes) -> str:
    """Decode text that is known to be malformed; cuts it if the replacements make it too long to write."""
    text = _SURROGATE.sub(_ONE_MALFORMED, data.decode(_BYTES)).encode(_BYTES).decode(errors="replace")
    return cut_text(text.encode()).decode()
