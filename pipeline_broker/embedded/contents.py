"""Keys, values and headers as the embedding program gives them: bytes, text that stands for UTF-8, or None.

Rules of this file: what can be in no record is one line of who gave it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from pipeline_broker.embedded.errors import EmbeddedBrokerError

__all__ = ["Content", "Headers", "encoded", "encoded_headers"]

Content: TypeAlias = bytes | str | None
Headers: TypeAlias = Iterable[tuple[str, Content]] | Mapping[str, Content]


def encoded(asked: str, content: object) -> bytes | None:
    """A content as it is in a record.

    Args:
        asked: the method that it was given to.

    Raises:
        EmbeddedBrokerError: it is neither text nor bytes nor None.
    """
    if isinstance(content, str):
        return content.encode()
    if content is not None and not isinstance(content, bytes | bytearray | memoryview):
        raise EmbeddedBrokerError(f"{asked}: {content!r} is neither text nor bytes nor None; encode it")
    return None if content is None else bytes(content)


def encoded_headers(asked: str, headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    """Headers as they are in a record; raises EmbeddedBrokerError as `encoded` does."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    return tuple((name, encoded(asked, content)) for name, content in pairs)
