"""Sources of settings: `name=value` arguments, Java properties files and TOML files.

Each source returns pairs of names and texts in the order of the file, without checking names.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from pipeline_broker.config.properties import ConfigError, property_text
from pipeline_broker.files.bounded_file import read_bounded

ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
SEPARATOR = re.compile(r"(?<!\\)(?:\s+(?:[=:]\s*)?|[=:]\s*)")
FILE_BYTES_MAX = 1 << 20  # a hundred times the size of Kafka's own server.properties
"""Size of a file of settings."""
CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_argument(argument: str) -> tuple[str, str]:
    """Split the argument of `--set name=value`; raises ConfigError if it has another form."""
    name, separator, value = argument.partition("=")
    if not separator or not name.strip():
        raise ConfigError(f"{argument!r} is not of the form name=value")
    return name.strip(), value.strip()


def read_settings_file(path: Path, *, is_properties: bool = False) -> list[tuple[str, str]]:
    return [(name, text) for name, text, _ in read_located_settings(path, is_properties=is_properties)]


def read_located_settings(path: Path, *, is_properties: bool = False) -> list[tuple[str, str, str]]:
    """Return the names, texts and places in a file of at most FILE_BYTES_MAX bytes. A place has the path for errors.

    Args:
        path: a TOML file if its suffix is `.toml`, otherwise a Java properties file.
        is_properties: read Java properties, whatever the suffix.

    Raises:
        ConfigError: the file cannot be read or parsed.
    """
    is_toml = path.suffix.lower() == ".toml" and not is_properties
    try:
        data = read_bounded(path, FILE_BYTES_MAX)[0]
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        if is_toml or b"\0" in data:  # binary data or UTF-16
            raise ConfigError(f"cannot read {path}: it is not UTF-8 text") from None
        text = data.decode("latin-1")  # like java.util.Properties; comments of older files have any encoding
    if is_toml:
        return [(name, value, str(path)) for name, value in _read_toml(path, text)]
    return [(name, value, f"{path}, line {line}") for name, value, line in _read_properties(text)]


def _read_properties(text: str) -> Iterator[tuple[str, str, int]]:
    r"""Parse Java's format: comments with # or !, separators `=`, `:` or blanks, continuation with \, and \uXXXX."""
    for number, line in _logical_lines(text):
        name, *rest = SEPARATOR.split(line, maxsplit=1)
        yield _unescape(name), _unescape(rest[0] if rest else "").strip(), number


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending, first = "", 1
    for number, raw in enumerate(re.split(r"\r\n|\r|\n", text), 1):
        line = raw.lstrip()
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        line = pending + line
        # An odd number of trailing backslashes continues the line. An even number is half as many escaped ones.
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
            continue
        pending = ""
        yield first, line
    if pending:
        yield first, pending


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        return CONTROL.get(escape, escape)

    return ESCAPE.sub(replace, text)


def _read_toml(path: Path, text: str) -> list[tuple[str, str]]:
    import tomllib  # noqa: PLC0415 - only TOML files need its parser

    try:
        return list(_flatten(path, "", tomllib.loads(text)))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:  # ValueError: also too many digits; RecursionError: nesting
        raise ConfigError(f"cannot read {path}: {error}") from None


def _flatten(path: Path, prefix: str, table: dict[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the leaves of a table under dotted names: in TOML, `[num.io] threads = 8` sets num.io.threads."""
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict):
            yield from _flatten(path, name + ".", value)
        elif isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
            yield name, ",".join(property_text(item) for item in value)
        elif isinstance(value, str | bool | int | float):
            yield name, property_text(value)
        else:
            raise ConfigError(f"cannot read {path}: {name} must be a string, a number, a boolean or a list of them")
