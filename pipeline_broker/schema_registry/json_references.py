"""Resolution of references within and between JSON Schema documents.

A reference is resolved against the nearest `$id` around it (`id` in draft 4), by RFC 3986 and JSON Schema's "Schema
Identification". It may lead to any schema with an `$id` or an anchor, in the same document or in one that it refers to.
Nothing is fetched; the metaschemas of all drafts are built in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

import jsonschema_specifications

__all__ = ["BY_NAME", "VALUES", "References", "subschemas"]

VALUES = frozenset({"const", "default", "enum", "examples"})
"""Keywords that contain values, not schemas."""
BY_NAME = frozenset({"properties", "patternProperties", "definitions", "$defs", "dependencies", "dependentSchemas"})
"""Keywords that contain schemas under names that the author chose. Such a name may look like a keyword."""
DRAFT_4 = "http://json-schema.org/draft-04/schema"
MODERN_DRAFTS = ("2019-09", "2020-12")
METASCHEMAS = jsonschema_specifications.REGISTRY


def subschemas(root: Any, by_name: frozenset[str] = BY_NAME) -> Iterator[dict[str, Any]]:
    """Yield every object of a document that may be a schema.

    Args:
        root: the document.
        by_name: keywords that map names to schemas. A name below them is not a keyword.
    """
    waiting = [(root, False)]
    while waiting:
        each, is_by_name = waiting.pop()
        if isinstance(each, dict):
            if not is_by_name:
                yield each
            waiting += [
                (inner, not is_by_name and name in by_name)
                for name, inner in each.items()
                if is_by_name or name not in VALUES
            ]
        elif isinstance(each, list):
            waiting += [(inner, False) for inner in each]


class References:
    """The schemas of a document, and of the documents that it refers to, by address.

    Args:
        root: the document.
        others: the documents that it refers to, by the names that it uses for them.
    """

    def __init__(self, root: Any, others: Mapping[str, Any]) -> None:
        self._base_of: dict[int, str] = {}  # by id(); the documents keep the objects alive
        self._resources: dict[str, Any] = {}  # by address without fragment
        self._anchors: dict[tuple[str, str], Any] = {}  # by address of the resource and name of the anchor
        self._others = others
        self._root = root
        self._root_base = _Dialect.of(root).address(root, "")
        self._add(root, "")
        for name, other in others.items():
            self._add(other, urljoin(self._root_base, name))

    def _add(self, document: Any, address: str) -> None:
        """Add a document and all schemas in it. The first of several schemas with the same address counts."""
        dialect = _Dialect.of(document)
        self._resources.setdefault(urldefrag(address)[0], document)
        waiting = [(document, address)]
        while waiting:
            schema, base = waiting.pop()
            base = dialect.address(schema, base)
            self._base_of[id(schema)] = base
            if isinstance(schema, dict):
                self._name(schema, base, dialect.ids(schema))
            waiting += [(inner, base) for inner in _inner(schema)]

    def _name(self, schema: Mapping[str, Any], base: str, ids: Sequence[str]) -> None:
        if any(urldefrag(each)[0] for each in ids):
            self._resources.setdefault(base, schema)
        for anchor in (*(urldefrag(each)[1] for each in ids), schema.get("$anchor"), schema.get("$dynamicAnchor")):
            if isinstance(anchor, str) and anchor:
                self._anchors.setdefault((base, anchor), schema)

    def target(self, schema: Any, reference: str) -> Any:
        """Return the target of a reference; None if it has none.

        Args:
            schema: the schema that contains the reference, whose base address resolves it.
        """
        base = self._base_of.get(id(schema), self._root_base)
        address, fragment = urldefrag(urljoin(base, reference))
        if reference.startswith("#"):
            address = base  # urljoin drops a base such as urn:...
        document = self._document(address, urldefrag(reference)[0])
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            return self._anchors.get((self._base_of.get(id(document), address), fragment))
        found = _pointed(document, fragment)
        # Earlier versions of this registry resolved every pointer from the root. Schemas registered by them stay valid.
        return _pointed(self._root, fragment) if found is None and reference.startswith("#") else found

    def _document(self, address: str, name: str) -> Any:
        if address not in self._resources and name in self._others:
            return self._others[name]
        if address not in self._resources:
            metaschema = METASCHEMAS.get(address) or METASCHEMAS.get(f"{address}#")
            if metaschema is not None:
                self._add(metaschema.contents, address)
        return self._resources.get(address)

    def keep_base(self, made: Any, schema: Any) -> None:
        self._base_of[id(made)] = self._base_of.get(id(schema), self._root_base)


class _Dialect(NamedTuple):
    """The rules by which schemas of a draft get their addresses.

    Attributes:
        keywords: `$id`, or `id` in draft 4.
        is_modern: whether an address beside a `$ref` counts, as it does since draft 2019-09.
    """

    keywords: tuple[str, ...]
    is_modern: bool

    @classmethod
    def of(cls, document: Any) -> _Dialect:
        named = document.get("$schema") if isinstance(document, dict) else None
        if not isinstance(named, str):
            return cls(("$id", "id"), is_modern=False)
        is_modern = any(draft in named for draft in MODERN_DRAFTS)
        return cls(("id",) if named.rstrip("#") == DRAFT_4 else ("$id",), is_modern)

    def ids(self, schema: Mapping[str, Any]) -> Sequence[str]:
        if not self.is_modern and isinstance(schema.get("$ref"), str):
            return ()
        return [text for keyword in self.keywords if isinstance(text := schema.get(keyword), str)]

    def address(self, schema: Any, base: str) -> str:
        ids = self.ids(schema) if isinstance(schema, dict) else ()
        return next((urljoin(base, address) for each in ids if (address := urldefrag(each)[0])), base)


def _inner(schema: Any) -> Iterator[Any]:
    if isinstance(schema, list):
        yield from schema
    elif isinstance(schema, dict):
        for name, inner in schema.items():
            if name in BY_NAME and isinstance(inner, dict):
                yield from inner.values()
            elif name not in VALUES and isinstance(inner, dict | list):
                yield inner


def _pointed(document: Any, pointer: str) -> Any:
    for part in pointer.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, list) and key.isascii() and key.isdigit() and int(key) < len(document):
            document = document[int(key)]
        else:
            document = document.get(key) if isinstance(document, dict) else None
    return document
