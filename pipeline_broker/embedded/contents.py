"""Keys, values and headers from the embedding program: bytes, text encoded as UTF-8, or None."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from pipeline_broker.embedded.arguments import checked_name
from pipeline_broker.embedded.errors import EmbeddedBrokerError

__all__ = ["Content", "Headers", "encoded", "encoded_headers"]

Content: TypeAlias = bytes | str | None
Headers: TypeAlias = Iterable[tuple[str, Content]] | Mapping[str, Content]


def encoded(asked: str, content: object) -> bytes | None:
    """Return a key or value as bytes.

    Args:
        asked: the method of EmbeddedBroker that the error names.

    Raises:
        EmbeddedBrokerError: the content is not text, bytes or None.
    """
    if isinstance(content, str):
        return content.encode()
    if content is not None and not isinstance(content, bytes | bytearray | memoryview):
        raise EmbeddedBrokerError(f"{asked}: {content!r} is neither text nor bytes nor None; encode it")
    return None if content is None else bytes(content)


def encoded_headers(asked: str, headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    """Return headers as pairs of a name and bytes.

    Raises:
        EmbeddedBrokerError: they are neither pairs nor a mapping, a name is not text, or a value is not text, bytes or
            None.
    """
    try:
        pairs = [(name, content) for name, content in (headers.items() if isinstance(headers, Mapping) else headers)]
    except (TypeError, ValueError):
        raise EmbeddedBrokerError(f"{asked}: headers need (name, value) pairs or a mapping, not {headers!r}") from None
    return tuple((checked_name(f"{asked}: the name of a header", name), encoded(asked, value)) for name, value in pairs)
