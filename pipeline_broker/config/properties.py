"""Definitions of Kafka's properties: names, types, defaults and ranges. The table is read on first use."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from pipeline_broker.base.numbers import INT32, INT64, decimal_number, whole_number

TYPE_RANGES: Mapping[str, tuple[int, int]] = {"short": (-(2**15), 2**15 - 1), "int": INT32, "long": INT64}
PREFIXED = re.compile(r"listener\.name\.[A-Za-z0-9_-]+\.(?:[A-Za-z0-9-]+\.(?=sasl\.|connections\.max\.reauth\.))?(.+)")
"""A property of one listener, or of one SASL mechanism of that listener; group 1 is the name without the prefix."""
TABLE = Path(__file__).parent / "properties.txt"
COLUMNS = 6
SAME = "="
"""The text of a column with the value of the broker property from which a setting inherits."""
HOUR_MS = 3_600_000
MINUTE_MS = 60_000
COARSER: Mapping[str, Sequence[tuple[str, int]]] = {
    "log.retention.ms": (("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)),
    "log.roll.ms": (("log.roll.hours", HOUR_MS),),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", HOUR_MS),),
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
}
"""Broker properties in milliseconds, their fallbacks in coarser units, and the milliseconds of one such unit."""

Settings = Mapping[str, str]
Value = bool | int | float | str | tuple[str, ...]


class ConfigError(Exception):
    """A setting that cannot be used; the message is one line for the operator.

    Attributes:
        client_message: Kafka's message, for a client that made the setting.
    """

    def __init__(self, text: str, client_message: str | None = None) -> None:
        super().__init__(text)
        self.client_message = text if client_message is None else client_message


def refusal(text: str, client_reason: str) -> ConfigError:
    """Return the error for a configuration that is invalid as a whole, with Kafka's wording for clients."""
    return ConfigError(
        text,
        f"Invalid value org.apache.kafka.common.config.ConfigException: {client_reason}"
        " for configuration Invalid dynamic configuration",
    )


class UnknownPropertyError(ConfigError):
    pass


@attrs.frozen(kw_only=True)
class Property:
    """The definition of one property.

    Attributes:
        type: Kafka's type in lower case, or "unknown" for a name that is in no table.
        default: Kafka's text of the default; None if the property is unset by default.
        values: the allowed values: `-` for any, `a..` (no upper limit), `a..b`, either with `|c` (also `c`), `of x,y`,
            or `anycase X,Y`; of a list, those of each item.
        update_mode: of a broker property: "read-only", "per-broker" or "cluster-wide".
        broker_property: of a topic or group setting: the broker property that gives its default.
        documentation: one sentence, if this broker acts on the property.
    """

    name: str
    type: str
    default: str | None
    values: str
    update_mode: str | None = None
    broker_property: str | None = None
    documentation: str | None = None

    @property
    def sensitive(self) -> bool:
        """True if values are never shown: of secrets, and of unknown properties, which may be secrets of plug-ins."""
        return self.type in {"password", "unknown"}

    @property
    def is_number_or_choice(self) -> bool:
        """True if values are numbers, booleans or fixed words."""
        kind, _, _ = self.values.partition(" ")
        return self.type in TYPE_RANGES or self.type in {"double", "boolean"} or kind in {"of", "anycase"}

    @property
    def read_only(self) -> bool:
        return self.update_mode == "read-only"

    def parse(self, text: str) -> Value:
        """Return the value of a text.

        Raises:
            ConfigError: the text does not fit the type or the range.
        """
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

    @property
    def default_value(self) -> Value | None:
        return None if self.default is None else self.parse(self.default)

    def canonical(self, text: str) -> str:
        """Return the text that Kafka shows for `text`: trimmed, booleans in lower case, plain numbers."""
        return format_value(self.parse(text))

    def empty_item(self, text: str) -> ConfigError:
        message = f"Configuration '{self.name}' values must not be empty."
        return ConfigError(f"{self.name}: {text!r} is not allowed: an item is empty", message)

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
        # Not written with `>`, so that NaN is refused too.
        elif high and not number <= int(high):
            reason = f"must be no more than {high}"
        else:
            return
        expected = f"between {low} and {high}" if exception and high else reason.removeprefix("must be ")
        if exception:
            expected += f" or equal to {exception}"
        raise self._refusal(text, reason, f"Value must be {expected}", shown=str(number))

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
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def broker_properties() -> Mapping[str, Property]:
    return properties_of("broker")


def topic_properties() -> Mapping[str, Property]:
    return properties_of("topic")


@functools.cache
def properties_of(scope: str) -> Mapping[str, Property]:
    """Return the properties of a scope by name; `scope` is "broker", "topic", "group" or "client-metrics"."""
    _, _, section = TABLE.read_text(encoding="utf-8").partition(f"\n[{scope}]\n")
    lines, _, _ = section.partition("\n\n")
    definitions = [_definition(line, is_of_broker=scope == "broker") for line in lines.splitlines()]
    return {definition.name: definition for definition in definitions}


def _definition(line: str, *, is_of_broker: bool) -> Property:
    columns: Sequence[str] = line.split(" | ")
    assert len(columns) == COLUMNS, line
    name, kind, default, values, column, documentation = columns
    definition = Property(
        name=name,
        type=kind,
        default={"null": None, '""': ""}.get(default, default),
        values=values,
        update_mode=column if is_of_broker else None,
        broker_property=None if is_of_broker or column == "-" else column,
        documentation=None if documentation == "-" else documentation,
    )
    return definition if definition.broker_property is None else _inheriting(definition, broker_properties()[column])


def _inheriting(definition: Property, broker: Property) -> Property:
    return attrs.evolve(
        definition,
        type=broker.type if definition.type == SAME else definition.type,
        default=_default_of(broker.name) if definition.default == SAME else definition.default,
        values=broker.values if definition.values == SAME else definition.values,
        documentation=broker.documentation if definition.documentation == SAME else definition.documentation,
    )


def _default_of(name: str) -> str | None:
    """Return the default of a broker property, in whichever unit it is declared."""
    for candidate, unit in ((name, 1), *COARSER.get(name, ())):
        default = broker_properties()[candidate].default
        if default is not None:
            return scaled(default, unit)
    return None


def scaled(value: str, unit: int) -> str:
    # Any negative number of a coarser unit means "never", which is -1 (KafkaConfig.getLogRetentionTimeMillis).
    return value if unit == 1 else str(max(-1, int(value) * unit))


def fields_of(scope: str, prefix: str = "") -> Callable[[type, list[attrs.Attribute[Any]]], list[attrs.Attribute[Any]]]:
    """Return a field transformer for an attrs class whose fields are properties of `scope`.

    A field is named like its property, without `prefix` and with `_` for `.`, and gets its default. A field with a
    default of its own is not a property.
    """

    def transform(_: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
        known = properties_of(scope)
        return [
            field.evolve(default=known[prefix + field.name.replace("_", ".")].default_value)
            if field.default is attrs.NOTHING
            else field
            for field in fields
        ]

    return transform


def nearest_hint(name: str, known: Iterable[str]) -> str:
    """Return "; did you mean ...?" with the known name nearest to `name`, or an empty text."""
    import difflib  # noqa: PLC0415 - only errors need it

    prefixed = PREFIXED.fullmatch(name)
    rest = name if prefixed is None else prefixed[1]
    near = difflib.get_close_matches(rest.lower().replace("_", "."), list(known), n=1, cutoff=0.5)
    return f"; did you mean {name.removesuffix(rest)}{near[0]}?" if near else ""


def unknown_property(name: str, known: Iterable[str], client_message: str | None = None) -> UnknownPropertyError:
    return UnknownPropertyError(f"unknown property {name!r}{nearest_hint(name, known)}", client_message)


def property_text(value: object) -> str:
    """Return the text of a value from TOML or Python, with Kafka's spelling of booleans."""
    return str(value).lower() if isinstance(value, bool) else str(value)
