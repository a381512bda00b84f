"""Files of fault rules: TOML with a `[[rule]]` table per rule."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from pipeline_broker.base.unavailable import UnavailableError
from pipeline_broker.faults.names import FaultError
from pipeline_broker.faults.rule_text import RuleParts, parse_rule
from pipeline_broker.files.bounded_file import read_bounded

__all__ = ["read_rules"]

HEADER = re.compile(r"\s*\[\[\s*rule\s*\]\]")
TOML_LINE = re.compile(r"(?P<what>.*) \(at line (?P<line>\d+), column \d+\)")
FILE_BYTES_MAX = 1 << 20
"""Size of a file of fault rules."""


def read_rules(path: Path) -> list[RuleParts]:
    """Read the rules of a file.

    Raises:
        UnavailableError: the file cannot be read, or a rule is invalid. The text names the path, and the line of an
            invalid rule.
    """
    try:
        text = read_bounded(path, FILE_BYTES_MAX)[0].decode()
    except OSError as error:
        raise UnavailableError(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise UnavailableError(f"cannot read {path}: it is not UTF-8 text") from None
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # includes numbers with too many digits and deeply nested tables
        found = TOML_LINE.fullmatch(str(error))
        raise UnavailableError(f"{path}:{found['line']}: {found['what']}" if found else f"{path}: {error}") from None
    lines = text.splitlines()
    for key in document:
        if key != "rule":
            raise UnavailableError(f"{path}:{_line_of(lines, key, 0)}: unknown key {key!r}; use only [[rule]] tables")
    rules = document.get("rule", [])
    starts = [number for number, line in enumerate(lines) if HEADER.match(line)]
    if not isinstance(rules, list) or len(starts) != len(rules):
        raise UnavailableError(f"{path}: start each rule with a line [[rule]]")
    return [_parse(path, lines, start, fields) for start, fields in zip(starts, rules, strict=True)]


def _parse(path: Path, lines: list[str], start: int, fields: dict[str, object]) -> RuleParts:
    try:
        return parse_rule(fields)
    except FaultError as error:
        line = start + 1 if error.key is None else _line_of(lines, error.key, start)
        raise UnavailableError(f"{path}:{line}: {error}") from None


def _line_of(lines: list[str], key: str, start: int) -> int:
    # tomllib reports lines only for syntax errors, so search the text for the key.
    wanted = re.compile(rf"""\s*\[*\s*["']?{re.escape(key)}["']?\s*[=.\]]""")
    return next((number for number in range(start, len(lines)) if wanted.match(lines[number])), start) + 1
