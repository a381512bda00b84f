"""Keys, values and headers as the embedding program gives them: bytes, text that stands for UTF-8, or None.

Rules of this file: what can be in no record is one line of who gave it.
"""

from __future__ import annotations

from typing import TypeAlias

from pipeline_broker.embedded.errors import EmbeddedBrokerError

__all__ = ["Content", "encoded"]

Content: TypeAlias = bytes | str | None


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
