"""Rules as people write them: names and values, in a file or on the command line.

Rules of this file: as of `names.py`. A rule says what it is about (`api`, `disk` or `store`, and what narrows that),
which of it is struck, and one effect, whose key is the effect and whose value is its argument. Values are what TOML
gives, or texts; a time is a text such as "200ms" or "1s", or a number of milliseconds.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pipeline_broker.config.duration import milliseconds
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
        return float(value)  # type: ignore[arg-type]  # what it does not take is said below
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
WHEN = "when"
"""The second argument of an error."""


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
"""What a rule may be about, with the keys that narrow it, its effects, and its condition."""
KEYS = tuple(
    dict.fromkeys([*(key for keys, effects, _ in SUBJECTS.values() for key in (*keys, *effects)), *CHOICE_KEYS, WHEN])
)


@contextlib.contextmanager
def _blaming(key: str, *, is_named: bool = False) -> Iterator[None]:
    """What is wrong in the body is the fault of a key, which the line names unless it does so already."""
    try:
        yield
    except FaultError as error:
        blamed = FaultError(str(error) if is_named else f"{key} {error}")
        blamed.key = key
        raise blamed from None


def _converted(fields: Mapping[str, object], keys: Mapping[str, Callable[[object], Any]]) -> dict[str, Any]:
    """Those of the fields that have one of these keys, each converted."""
    found = {}
    for key in fields.keys() & keys.keys():
        with _blaming(key):
            found[key] = keys[key](fields[key])
    return found


def parse_rule(fields: Mapping[str, object]) -> RuleParts:
    """The parts of a rule.

    Args:
        fields: its names and values; see the rules of the file.

    Raises:
        FaultError: they make no rule.
    """
    for key in fields:
        with _blaming(key, is_named=True):
            choice("key", key, KEYS)
    about = [key for key in SUBJECTS if key in fields]
    if len(about) != 1:
        raise FaultError(
            "a rule is about api = a request's name, disk = sync or write, or store = put, get, ...: one of them"
        )
    condition_keys, effect_keys, kind = SUBJECTS[about[0]]
    effects = [key for key in fields if key in effect_keys]
    if len(effects) != 1:
        found = f"there are {', '.join(effects)}" if effects else "there is none"
        raise FaultError(f"a rule has one effect of {', '.join(effect_keys)}; {found}")
    (effect_key,) = effects
    second = {WHEN} if effect_key == "error" and kind is RequestCondition else set()
    for key in fields:
        if key not in {*condition_keys, *CHOICE_KEYS, effect_key, *second}:
            with _blaming(key):
                raise FaultError(f"makes no sense in a rule about {about[0]} with the effect {effect_key}")
    named = _converted(fields, condition_keys)
    chosen = Choice(**_converted(fields, CHOICE_KEYS))
    when = _converted(fields, {WHEN: _text}).get(WHEN)
    with _blaming(about[0], is_named=True):
        condition = kind(**named)
    with _blaming(effect_key, is_named=True):
        return condition, chosen, effect_keys[effect_key](fields[effect_key], when)


def parse_arguments(arguments: Sequence[str]) -> RuleParts:
    """The parts of a rule that was written as NAME=VALUE texts; a name alone means `true`.

    Raises:
        FaultError: they make no rule.
    """
    fields: dict[str, object] = {}
    for argument in arguments:
        key, separator, value = argument.partition("=")
        key = key.strip().replace("-", "_")
        if key in fields:
            raise FaultError(f"{key!r} is given twice")
        fields[key] = value.strip() if separator else True
    return parse_rule(fields)
