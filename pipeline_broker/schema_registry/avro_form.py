"""A unique form of Avro schemas, and the checks of Avro's Java library.

The form has full names only, defines a type where it is first used, orders the attributes and omits those without
meaning. Two schemas have the same form if Java's `Schema.equals` and Confluent's `AvroSchema.equals` take them for
equal (tests/schema_registry/test_avro_form.py compares it with Avro 1.12). The strict checks of a new schema are those
of Java's `Schema.Parser`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn, TypeAlias

from pipeline_broker.base.strict_json import dump, load
from pipeline_broker.schema_registry.source_text import Kind, pieces

__all__ = ["AvroFormError", "Definitions", "Node", "definitions_of", "read", "read_json", "written"]

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "error", "enum", "fixed"})
RESERVED = frozenset({"doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"})
FIELD_RESERVED = frozenset({"default", "doc", "name", "order", "type", "aliases"})
ORDERS = frozenset({"ascending", "descending", "ignore"})
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
JAVA_DOUBLE = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?[fFdD]?")
FIXED_SIZE_MAX = 2**31 - 1
SHOWN_CHARACTERS_MAX = 200

Node: TypeAlias = Any
"""A type: a name, a union as a list of nodes, or an object whose inner types are nodes."""
Definitions: TypeAlias = dict[str, dict[str, Any]]
"""Named types by their full names."""


class AvroFormError(ValueError):
    pass


def read_json(text: str) -> Any:
    """Read the JSON of a schema, which may contain comments, as in Java.

    Raises:
        InvalidJsonError: the text without its comments is not valid JSON.
    """
    if "/" not in text:
        return load(text)
    return load("".join(" " if kind is Kind.COMMENT else piece for kind, piece in pieces(text)))


def read(content: Any, known: Mapping[str, Any], *, is_strict: bool) -> tuple[Node, Definitions]:
    """Return the node of a schema and the named types that it defines.

    Args:
        content: the schema as JSON.
        known: named types of the schemas that it refers to.
        is_strict: also apply the checks of a new schema.

    Raises:
        AvroFormError: `content` is not a schema, or fails the checks of a new one.
    """
    reader = _Reader(known, is_strict=is_strict)
    return reader.type(content, ""), reader.definitions


def definitions_of(contents: Collection[Any]) -> Definitions:
    """Return the named types of schemas. Each schema must follow those that it refers to.

    Raises:
        AvroFormError: a content is not a schema.
    """
    found: Definitions = {}
    for content in contents:
        found |= read(content, found, is_strict=False)[1]
    return found


def written(node: Node, definitions: Mapping[str, Any], known: Collection[str] = ()) -> Any:
    """Return the form of a node as JSON. Each named type is defined where it is first used.

    Args:
        node: the schema.
        definitions: named types by their full names.
        known: names that a reference defines, so they are not defined again.
    """
    return _Writer(definitions, known).type(node)


def _fail(message: str, content: Any) -> NoReturn:
    raise AvroFormError(f"{message}: {dump(content)[:SHOWN_CHARACTERS_MAX]}")


class _Reader:
    def __init__(self, known: Mapping[str, Any], *, is_strict: bool) -> None:
        self._known, self._is_strict = known, is_strict
        self.definitions: Definitions = {}

    def type(self, content: Any, space: str) -> Node:
        if isinstance(content, str):
            return content if content in PRIMITIVES else self._reference(content, space)
        if isinstance(content, list):
            return self._union([self.type(each, space) for each in content], content)
        if not isinstance(content, dict):
            _fail("A schema must be a name, an object or a list", content)
        kind = content.get("type")
        if not isinstance(kind, str):
            self._check(isinstance(kind, str), "An object needs the name of its type", content)
            return self.type(kind, space)
        if kind in NAMED:
            return self._named(kind, content, space)
        if kind in PRIMITIVES:
            properties = _properties(content, RESERVED)
            return {"type": kind, **properties} if properties else kind
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            if content.get(inner) is None:
                _fail(f"A type {kind} needs {inner}", content)
            return {"type": kind, inner: self.type(content[inner], space), **_properties(content, RESERVED)}
        return self._reference(kind, space)

    def _check(self, condition: object, message: str, content: Any) -> None:
        """Reject a new schema unless a condition holds. Registered schemas are read as they are."""
        if self._is_strict and not condition:
            _fail(message, content)

    def _reference(self, name: str, space: str) -> str:
        full = _full_name(name, space)
        if (
            full not in self.definitions
            and full not in self._known
            and (name in self.definitions or name in self._known)
        ):
            return name  # a type without a namespace
        return full

    def _union(self, branches: list[Node], content: Any) -> list[Node]:
        kinds = [branch["type"] if isinstance(branch, dict) else branch for branch in branches]
        self._check(not any(isinstance(kind, list) for kind in kinds), "A union must not contain a union", content)
        names = [kind for kind in kinds if isinstance(kind, str)]
        self._check(len(names) == len(set(names)), "A union must not contain a type twice", content)
        return branches

    def _named(self, kind: str, content: dict[str, Any], space: str) -> str:
        name, named_space = content.get("name"), content.get("namespace")
        if not isinstance(name, str):
            _fail(f"A type {kind} needs a name", content)
        full = _full_name(name, named_space if isinstance(named_space, str) else space)
        inner_space = full.rpartition(".")[0]
        self._check_names(full, content)
        self._check(full not in PRIMITIVES, "A type must not have the name of a primitive type", content)
        found: dict[str, Any] = {"type": kind, "name": full}
        if isinstance(content.get("doc"), str):
            found["doc"] = content["doc"]
        if aliases := self._aliases(content):
            full_aliases = sorted({_full_name(alias, inner_space) for alias in aliases})
            for alias in full_aliases:
                self._check_names(alias, content)
            found["aliases"] = full_aliases
        before = self.definitions.get(full, self._known.get(full))
        self.definitions[full] = found  # before its fields, which may refer to it
        reserved = RESERVED
        if kind == "enum":
            found |= self._enum(content)
            reserved = RESERVED | {"default"}
        elif kind == "fixed":
            found["size"] = self._size(content)
        else:
            found["fields"] = self._fields(content, inner_space)
        found |= _properties(content, reserved)
        self._check(before is None or before == found, "A type is defined twice with different contents", content)
        return full

    def _check_names(self, full: str, content: Any) -> None:
        for part in full.split("."):
            self._check(NAME.fullmatch(part), f"{part!r} is not a name: use letters, digits and _", content)

    def _aliases(self, content: dict[str, Any]) -> list[str]:
        aliases = content.get("aliases") or []
        is_list = isinstance(aliases, list) and all(isinstance(alias, str) for alias in aliases)
        self._check(is_list, "Aliases must be a list of names", content)
        return aliases if is_list else []

    def _enum(self, content: dict[str, Any]) -> dict[str, Any]:
        symbols, default = content.get("symbols"), content.get("default")
        if not isinstance(symbols, list):
            _fail("An enum needs symbols", content)
        for symbol in symbols:
            if not isinstance(symbol, str):
                _fail("A symbol must be a string", content)
            self._check(NAME.fullmatch(symbol), f"The symbol {symbol!r} is not a name", content)
        self._check(len(symbols) == len(set(symbols)), "An enum must not contain a symbol twice", content)
        if not isinstance(default, str):
            return {"symbols": symbols}
        self._check(default in symbols, "The default of an enum must be one of its symbols", content)
        return {"symbols": symbols, "default": default}

    def _size(self, content: dict[str, Any]) -> int:
        size = content.get("size")
        if type(size) is not int or not 0 <= size <= FIXED_SIZE_MAX:
            _fail("A type fixed needs a size in bytes", content)
        return size

    def _fields(self, content: dict[str, Any], space: str) -> list[dict[str, Any]]:
        fields = content.get("fields")
        if not isinstance(fields, list):
            _fail("A record needs fields", content)
        found = [self._field(field, space) for field in fields]
        names = [field["name"] for field in found]
        self._check(len(names) == len(set(names)), "A record must not have a field twice", content)
        return found

    def _field(self, content: Any, space: str) -> dict[str, Any]:
        name = content.get("name") if isinstance(content, dict) else None
        if not isinstance(name, str) or content.get("type") is None:
            _fail("A field needs a name and a type", content)
        self._check(NAME.fullmatch(name), f"The field {name!r} needs another name: use letters, digits and _", content)
        found: dict[str, Any] = {"name": name, "type": self.type(content["type"], space)}
        if isinstance(content.get("doc"), str):
            found["doc"] = content["doc"]
        if "default" in content:
            found["default"] = _default(found["type"], content["default"])
        order = content.get("order", "ascending")
        is_order = isinstance(order, str) and order.lower() in ORDERS
        self._check(is_order, "The order of a field must be ascending, descending or ignore", content)
        if is_order and order.lower() != "ascending":
            found["order"] = order.lower()
        if aliases := self._aliases(content):
            found["aliases"] = sorted(set(aliases))
        return found | _properties(content, FIELD_RESERVED)


def _full_name(name: str, space: str) -> str:
    if "." in name:
        return name.removeprefix(".")
    return f"{space}.{name}" if space else name


def _properties(content: Mapping[str, Any], reserved: Collection[str]) -> dict[str, Any]:
    return {name: content[name] for name in sorted(content) if name not in reserved}


def _default(kind: Node, default: Any) -> Any:
    """Return a default as Java stores it: for a float or double, a string becomes its number."""
    plain = kind["type"] if isinstance(kind, dict) else kind
    if plain not in ("float", "double"):
        return default
    if isinstance(default, str) and JAVA_DOUBLE.fullmatch(default.strip()):
        number = float(default.strip().rstrip("fFdD"))
        return number if math.isfinite(number) else default
    return float(default) if type(default) is int and abs(default) < 2**1023 else default


class _Writer:
    def __init__(self, definitions: Mapping[str, Any], known: Collection[str]) -> None:
        self._definitions, self._defined = definitions, set(known)

    def type(self, node: Node) -> Any:
        if isinstance(node, list):
            return [self.type(each) for each in node]
        if isinstance(node, str):
            if node in self._defined or node not in self._definitions:
                return node
            self._defined.add(node)
            found = self._definitions[node]
            if "fields" in found:
                fields = [{**field, "type": self.type(field["type"])} for field in found["fields"]]
                return {**found, "fields": fields}
            return found
        inner = {"array": "items", "map": "values"}.get(node["type"])
        return node if inner is None else {**node, inner: self.type(node[inner])}
