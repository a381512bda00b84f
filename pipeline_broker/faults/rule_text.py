"""Parsing of fault rules from names and values, in a file or on the command line.

A rule has a subject (`api`, `disk` or `store`), keys that narrow it, a choice, and one effect. The key of an effect is
its name, and the value its argument. Values are those of TOML, or texts. A time is a text such as "200ms" or "1s", or a
number of milliseconds.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pipeline_broker.base.duration import milliseconds
from pipeline_broker.faults.effects import (
    COMMIT,
    CorruptCrc,
    Crash,
    Delay,
    Disconnect,
    DiskError,
    Drop,
    Effect,
    Error,
    Outage,
    PartialWrite,
    Pause,
    StoreError,
    Throttle,
    Unsure,
)
from pipeline_broker.faults.names import FaultError, choice
from pipeline_broker.faults.rule import Choice, Condition, DiskCondition, RequestCondition, StoreCondition

__all__ = ["RuleParts", "parse_arguments", "parse_rule"]

WHOLE_NUMBER = re.compile(r"-?[0-9]{1,18}")
RuleParts: TypeAlias = tuple[Condition, Choice, Effect]


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise FaultError(f"needs a text, not {value!r}")
    return value


def _number(value: object) -> int:
    if isinstance(value, str) and WHOLE_NUMBER.fullmatch(value):
        return int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise FaultError(f"needs a whole number, not {value!r}")
    return value


def _chance(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # TypeError is handled below
    except (TypeError, ValueError):
        raise FaultError(f"needs a number, not {value!r}") from None


def _time_ms(value: object) -> float:
    found = milliseconds(str(value).strip()) if isinstance(value, str | int | float) else None
    if found is None or isinstance(value, bool) or not math.isfinite(found):
        raise FaultError(f"needs a time such as 200ms or 1s, not {value!r}")
    return found


def _yes(value: object) -> None:
    if value is not True and value != "true":
        raise FaultError(f"needs true, not {value!r}")


REQUEST_KEYS: Mapping[str, Callable[[object], Any]] = {
    "api": _text,
    "topic": _text,
    "partition": _number,
    "client_id": _text,
    "group": _text,
}
DISK_KEYS: Mapping[str, Callable[[object], Any]] = {"disk": _text, "path": _text}
STORE_KEYS: Mapping[str, Callable[[object], Any]] = {"store": _text, "name": _text}
CHOICE_KEYS: Mapping[str, Callable[[object], Any]] = {
    "nth": _number,
    "times": _number,
    "every": _number,
    "p": _chance,
    "seed": _number,
}
WHEN = "when"  # the second argument of an error


def _flag(effect: Callable[[], Effect]) -> Callable[[object, str | None], Effect]:
    def make(value: object, when: str | None) -> Effect:
        del when
        _yes(value)
        return effect()

    return make


REQUEST_EFFECTS: Mapping[str, Callable[[object, str | None], Effect]] = {
    "error": lambda value, when: Error(_text(value)) if when is None else Error(_text(value), when),
    "delay": lambda value, _: Delay(_time_ms(value) / 1000),
    "drop": _flag(Drop),
    "disconnect": lambda value, _: Disconnect(_text(value)),
    "partial_write": lambda value, _: PartialWrite(_number(value)),
    "corrupt_crc": _flag(CorruptCrc),
    "throttle": lambda value, _: Throttle(round(_time_ms(value))),
    "pause": lambda value, _: Pause(_text(value)),
}
DISK_EFFECTS: Mapping[str, Callable[[object, str | None], Effect]] = {
    "error": lambda value, _: DiskError(_text(value)),
    "delay": lambda value, _: Delay(_time_ms(value) / 1000),
    "pause": lambda value, _: _flag(lambda: Pause(COMMIT))(value, None),
    "crash": _flag(Crash),
}
STORE_EFFECTS: Mapping[str, Callable[[object, str | None], Effect]] = {
    "error": lambda value, _: StoreError(_text(value)),
    "delay": lambda value, _: Delay(_time_ms(value) / 1000),
    "pause": lambda value, _: _flag(lambda: Pause(COMMIT))(value, None),
    "unsure": lambda value, _: Unsure(_text(value)),
    "outage": lambda value, _: Outage(_time_ms(value) / 1000),
}
SUBJECTS: Mapping[str, tuple[Mapping[str, Callable[[object], Any]], Mapping[str, Any], type[Condition]]] = {
    "api": (REQUEST_KEYS, REQUEST_EFFECTS, RequestCondition),
    "disk": (DISK_KEYS, DISK_EFFECTS, DiskCondition),
    "store": (STORE_KEYS, STORE_EFFECTS, StoreCondition),
}
"""Keys of subjects, each with the keys that narrow it, its effects, and its condition."""
KEYS = tuple(
    dict.fromkeys([*(key for keys, effects, _ in SUBJECTS.values() for key in (*keys, *effects)), *CHOICE_KEYS, WHEN])
)


@contextlib.contextmanager
def _naming_key(key: str, *, is_named: bool = False) -> Iterator[None]:
    """Attribute a FaultError of the body to a key. Prefix the message with the key, unless `is_named`."""
    try:
        yield
    except FaultError as error:
        with_key = FaultError(str(error) if is_named else f"{key} {error}")
        with_key.key = key
        raise with_key from None


def _converted(fields: Mapping[str, object], keys: Mapping[str, Callable[[object], Any]]) -> dict[str, Any]:
    found = {}
    for key in fields.keys() & keys.keys():
        with _naming_key(key):
            found[key] = keys[key](fields[key])
    return found


def parse_rule(fields: Mapping[str, object]) -> RuleParts:
    """Parse a rule of names and values.

    Raises:
        FaultError: the rule is invalid.
    """
    for key in fields:
        with _naming_key(key, is_named=True):
            choice("key", key, KEYS)
    about = [key for key in SUBJECTS if key in fields]
    if len(about) != 1:
        raise FaultError(
            "a rule needs exactly one of api = a request's name, disk = sync or write, or store = put, get, ..."
        )
    condition_keys, effect_keys, kind = SUBJECTS[about[0]]
    effects = [key for key in fields if key in effect_keys]
    if len(effects) != 1:
        found = ", ".join(effects) or "none"
        raise FaultError(f"a rule needs exactly one effect of {', '.join(effect_keys)}; this one has {found}")
    (effect_key,) = effects
    second = {WHEN} if effect_key == "error" and kind is RequestCondition else set()
    for key in fields:
        if key not in {*condition_keys, *CHOICE_KEYS, effect_key, *second}:
            with _naming_key(key):
                raise FaultError(f"does not apply to a rule about {about[0]} with the effect {effect_key}; remove it")
    named = _converted(fields, condition_keys)
    chosen = Choice(**_converted(fields, CHOICE_KEYS))
    when = _converted(fields, {WHEN: _text}).get(WHEN)
    with _naming_key(about[0], is_named=True):
        condition = kind(**named)
    with _naming_key(effect_key, is_named=True):
        return condition, chosen, effect_keys[effect_key](fields[effect_key], when)


def parse_arguments(arguments: Sequence[str]) -> RuleParts:
    """Parse a rule of NAME=VALUE texts; a NAME alone means `true`.

    Raises:
        FaultError: the rule is invalid.
    """
    fields: dict[str, object] = {}
    for argument in arguments:
        key, separator, value = argument.partition("=")
        key = key.strip().replace("-", "_")
        if key in fields:
            raise FaultError(f"{key!r} is given twice; remove one of them")
        fields[key] = value.strip() if separator else True
    return parse_rule(fields)
