"""The names, types, defaults and ranges of Kafka's broker and topic properties, read from two tables on first use.

Rules: a property is declared once, in the tables; a refusal is one line that names the property, the value and what
would do; an unknown name is refused with the nearest valid one.
"""

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from pipeline_broker.base.numbers import INT32, INT64, decimal_number, whole_number

TYPE_RANGES: Mapping[str, tuple[int, int]] = {"short": (-(2**15), 2**15 - 1), "int": INT32, "long": INT64}
PREFIXED = re.compile(r"listener\.name\.[A-Za-z0-9_-]+\.(?:[A-Za-z0-9-]+\.(?=sasl\.|connections\.max\.reauth\.))?(.+)")
"""A property of one listener, or of one SASL mechanism of it."""
FOLDER = Path(__file__).parent
FIELDS = 6
"""Columns of a table line."""

Settings = Mapping[str, str]
Value = bool | int | float | str | tuple[str, ...]


class ConfigError(Exception):
    """A setting that cannot be used; its text is one line for the person who wrote it.

    Attributes:
        client_message: the same in Kafka's words, for a client that asked for the setting.
    """

    def __init__(self, text: str, client_message: str | None = None) -> None:
        super().__init__(text)
        self.client_message = text if client_message is None else client_message


def refusal(text: str, client_reason: str) -> ConfigError:
    """The refusal of a configuration as a whole, which Kafka words in a way of its own."""
    return ConfigError(
        text,
        f"Invalid value org.apache.kafka.common.config.ConfigException: {client_reason}"
        " for configuration Invalid dynamic configuration",
    )


class UnknownPropertyError(ConfigError):
    """No property has this name."""


@attrs.frozen(kw_only=True)
class Property:
    """One property: `default` and parsed values are Kafka's texts turned into Python's types, None where unset."""

    name: str
    type: str
    default: str | None
    values: str
    update_mode: str | None = None
    broker_property: str | None = None
    documentation: str | None = None

    @property
    def sensitive(self) -> bool:
        """Whether a value is a secret, never shown; what a name that nobody knows stands for may be one."""
        return self.type in {"password", "unknown"}

    @property
    def is_number_or_choice(self) -> bool:
        """Whether it holds numbers, true or false, or some of a few words."""
        kind, _, _ = self.values.partition(" ")
        return self.type in TYPE_RANGES or self.type in {"double", "boolean"} or kind in {"of", "anycase"}

    @property
    def read_only(self) -> bool:
        """Whether a running broker refuses to change it."""
        return self.update_mode == "read-only"

    def parse(self, text: str) -> Value:
        """The value of a text; raises ConfigError where the type or the range forbids it."""
        stripped = text.strip()
        if self.type in TYPE_RANGES:
            integer = self._integer(stripped)
            self._check_range(integer, text)
            return integer
        if self.type == "double":
            number = self._double(stripped)
            self._check_range(number, text)
            return number
        if self.type == "boolean":
            if stripped.lower() not in {"true", "false"}:
                raise self._refusal(text, "expected true or false", "Expected value to be either true or false")
            return stripped.lower() == "true"
        if self.type == "list":
            stripped = stripped.rstrip(", ")
            items = tuple(map(str.strip, stripped.split(","))) if stripped else ()
            for item in items:
                if not item:
                    raise self.empty_item(text)
                self._check_choice(item, text)
            return items
        self._check_choice(stripped, text)
        return stripped

    def canonical(self, text: str) -> str:
        """The text that Kafka shows for this text: trimmed, lower-case booleans, plain numbers."""
        return format_value(self.parse(text))

    def empty_item(self, text: str) -> ConfigError:
        """The refusal of a list with an empty item."""
        said = f"Configuration '{self.name}' values must not be empty."
        return ConfigError(f"{self.name}: {text!r} is not allowed: an item is empty", said)

    def _integer(self, text: str) -> int:
        number = whole_number(text, *TYPE_RANGES[self.type])
        if number is None:
            raise self._not_a_number(text)
        return number

    def _double(self, text: str) -> float:
        number = decimal_number(text)
        if number is None:
            raise self._not_a_number(text)
        return number

    def _not_a_number(self, text: str) -> ConfigError:
        return self._refusal(text, f"not a number of type {self.type}", f"Not a number of type {self.type.upper()}")

    def _check_range(self, number: float, text: str) -> None:
        if ".." not in self.values:
            return
        bounds, _, exception = self.values.partition("|")
        low, _, high = bounds.partition("..")
        if exception and number == int(exception):
            return
        if number < int(low):
            reason = f"must be at least {low}"
        elif high and not number <= int(high):
            reason = f"must be no more than {high}"
        else:
            return
        said = f"between {low} and {high}" if exception and high else reason.removeprefix("must be ")
        if exception:
            said += f" or equal to {exception}"
        raise self._refusal(text, reason, f"Value must be {said}", shown=str(number))

    def _check_choice(self, item: str, text: str) -> None:
        kind, _, listed = self.values.partition(" ")
        choices = listed.split(",")
        compared = item.upper() if kind == "anycase" else item
        if kind in {"of", "anycase"} and compared not in choices:
            listed = ", ".join(choices)
            raise self._refusal(text, f"must be one of {listed}", f"String must be one of: {listed}", shown=item)

    def _refusal(self, text: str, reason: str, client_reason: str, shown: str | None = None) -> ConfigError:
        value = "[hidden]" if self.sensitive else text if shown is None else shown
        return ConfigError(
            f"{self.name}: {'the value' if self.sensitive else repr(text)} is not allowed: {reason}",
            f"Invalid value {value} for configuration {self.name}: {client_reason}",
        )


def format_value(value: Value) -> str:
    """A value as Kafka writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


@functools.cache
def broker_properties() -> Mapping[str, Property]:
    """Every property of a broker by its name."""
    return read_table(FOLDER / "broker_properties.txt", lambda column: {"update_mode": column})


@functools.cache
def topic_properties() -> Mapping[str, Property]:
    """Every setting of a topic by its name."""
    return read_table(FOLDER / "topic_properties.txt", of_broker)


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """What to say behind a name that is unknown: the nearest valid one, where there is any."""
    import difflib  # noqa: PLC0415 - a start that goes well does not pay for it

    prefixed = PREFIXED.fullmatch(name)
    rest = name if prefixed is None else prefixed[1]
    near = difflib.get_close_matches(rest.lower().replace("_", "."), list(known), n=1, cutoff=0.5)
    return f"; did you mean {name.removesuffix(rest)}{near[0]}?" if near else ""


def unknown_property(name: str, known: Iterable[str], client_message: str | None = None) -> UnknownPropertyError:
    """The refusal of a name, with the nearest valid one where there is any."""
    return UnknownPropertyError(f"unknown property {name!r}{nearest_hint(name, known)}", client_message)


def of_broker(column: str) -> dict[str, str | None]:
    """The fifth column where it names the property of the broker that gives a default."""
    return {"broker_property": None if column == "-" else column}


def property_text(value: object) -> str:
    """A value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def read_table(path: Path, fifth: Callable[[str], dict[str, str | None]]) -> dict[str, Property]:
    """The properties of a table by their names; `fifth` says what the fifth column stands for."""
    table = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        columns: Sequence[str] = line.split(" | ")
        assert len(columns) == FIELDS, line
        name, kind, default, values, column, documentation = columns
        table[name] = Property(
            name=name,
            type=kind,
            default={"null": None, '""': ""}.get(default, default),
            values=values,
            documentation=None if documentation == "-" else documentation,
            **fifth(column),
        )
    return table
