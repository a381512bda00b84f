"""Where settings are written: `name=value` arguments, Java properties files, TOML files.

Rules: a source yields (name, text) pairs in the order of the file and judges no name; what cannot be read is one
ConfigError that says where.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from pipeline_broker.config.properties import ConfigError, property_text
from pipeline_broker.files.bounded_file import read_bounded

ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
SEPARATOR = re.compile(r"(?<!\\)(?:\s+(?:[=:]\s*)?|[=:]\s*)")
FILE_BYTES_MAX = 1 << 20
"""A hundred times the properties file that comes with Kafka."""
CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def read_argument(argument: str) -> tuple[str, str]:
    """The pair of a `--set name=value`."""
    name, separator, value = argument.partition("=")
    if not separator or not name.strip():
        raise ConfigError(f"{argument!r} is not of the form name=value")
    return name.strip(), value.strip()


def read_settings_file(path: Path, *, is_properties: bool = False) -> list[tuple[str, str]]:
    """Return the pairs of a file: TOML by its suffix unless it `is_properties`, otherwise Java properties."""
    is_toml = path.suffix.lower() == ".toml" and not is_properties
    try:
        data = read_bounded(path, FILE_BYTES_MAX)[0]
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        if is_toml or b"\0" in data:  # UTF-16 has them, too
            raise ConfigError(f"cannot read {path}: it is not UTF-8 text") from None
        text = data.decode("latin-1")  # as Java reads properties; comments of older files are in any code page
    return _read_toml(path, text) if is_toml else list(_read_properties(text))


def _read_properties(text: str) -> Iterator[tuple[str, str]]:
    r"""Java's format: # and ! comments, `=`, `:` or blanks after the name, \ to continue a line, \uXXXX."""
    for line in _logical_lines(text):
        name, *rest = SEPARATOR.split(line, maxsplit=1)
        yield _unescape(name), _unescape(rest[0] if rest else "").strip()


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip()
        if not pending and (not line or line[0] in "#!"):
            continue
        line = pending + line
        # an odd number of backslashes at the end continues the line; an even number is that many escaped ones
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = line[:-1]
            continue
        pending = ""
        yield line
    if pending:
        yield pending


def _unescape(text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) > 1:
            return chr(int(escape[1:], 16))
        return CONTROL.get(escape, escape)

    return ESCAPE.sub(replace, text)


def _read_toml(path: Path, text: str) -> list[tuple[str, str]]:
    import tomllib  # noqa: PLC0415 - only those who write TOML pay for its parser

    try:
        return list(_flatten(path, "", tomllib.loads(text)))
    except ConfigError:
        raise
    except (ValueError, RecursionError) as error:  # also a number of too many digits, and tables too deep
        raise ConfigError(f"cannot read {path}: {error}") from None


def _flatten(path: Path, prefix: str, table: dict[str, object]) -> Iterator[tuple[str, str]]:
    """Dotted names and tables are the same in TOML, so `[num.io] threads = 8` sets num.io.threads."""
    for key, value in table.items():
        name = prefix + key
        if isinstance(value, dict):
            yield from _flatten(path, name + ".", value)
        elif isinstance(value, list) and not any(isinstance(item, dict | list) for item in value):
            yield name, ",".join(property_text(item) for item in value)
        elif isinstance(value, str | bool | int | float):
            yield name, property_text(value)
        else:
            raise ConfigError(f"cannot read {path}: {name} is neither a text, a number, true, false nor a list of them")
