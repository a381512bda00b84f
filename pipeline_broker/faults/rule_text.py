"""Parsing of fault rules from names and values, in a file or on the command line.

A rule has a subject (`api`, `disk` or `store`), keys that narrow it, a choice, and one effect. The key of an effect is
its name, and the value its argument. Values are those of TOML, or texts. A time is a text such as "200ms" or "1s", or a
number of milliseconds.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

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
from pipeline_broker.faults.values import chance, seconds, text, whole_number

__all__ = ["RuleParts", "parse_arguments", "parse_rule"]

RuleParts: TypeAlias = tuple[Condition, Choice, Effect]


def _seconds(key: str, value: object) -> float:
    return seconds(key, value, bare="ms")


REQUEST_KEYS: Mapping[str, Callable[[str, object], Any]] = {
    "api": text,
    "topic": text,
    "partition": whole_number,
    "client_id": text,
    "group": text,
}
DISK_KEYS: Mapping[str, Callable[[str, object], Any]] = {"disk": text, "path": text}
STORE_KEYS: Mapping[str, Callable[[str, object], Any]] = {"store": text, "name": text}
CHOICE_KEYS: Mapping[str, Callable[[str, object], Any]] = {
    "nth": whole_number,
    "times": whole_number,
    "every": whole_number,
    "p": chance,
    "seed": whole_number,
}
WHEN = "when"  # the second argument of an error


def _flag(key: str, effect: Callable[[], Effect]) -> Callable[[object, str | None], Effect]:
    def make(value: object, when: str | None) -> Effect:
        del when
        if value is not True and value != "true":
            raise FaultError(f"{key} needs true, not {value!r}")
        return effect()

    return make


REQUEST_EFFECTS: Mapping[str, Callable[[Any, str | None], Effect]] = {
    "error": lambda value, when: Error(value) if when is None else Error(value, when),
    "delay": lambda value, _: Delay(_seconds("delay", value)),
    "drop": _flag("drop", Drop),
    "disconnect": lambda value, _: Disconnect(value),
    "partial_write": lambda value, _: PartialWrite(value),
    "corrupt_crc": _flag("corrupt_crc", CorruptCrc),
    "throttle": lambda value, _: Throttle(round(_seconds("throttle", value) * 1000)),
    "pause": lambda value, _: Pause(value),
}
DISK_EFFECTS: Mapping[str, Callable[[Any, str | None], Effect]] = {
    "error": lambda value, _: DiskError(value),
    "delay": lambda value, _: Delay(_seconds("delay", value)),
    "pause": _flag("pause", lambda: Pause(COMMIT)),
    "crash": _flag("crash", Crash),
}
STORE_EFFECTS: Mapping[str, Callable[[Any, str | None], Effect]] = {
    "error": lambda value, _: StoreError(value),
    "delay": lambda value, _: Delay(_seconds("delay", value)),
    "pause": _flag("pause", lambda: Pause(COMMIT)),
    "unsure": lambda value, _: Unsure(value),
    "outage": lambda value, _: Outage(_seconds("outage", value)),
}
SUBJECTS: Mapping[str, tuple[Mapping[str, Callable[[str, object], Any]], Mapping[str, Any], type[Condition]]] = {
    "api": (REQUEST_KEYS, REQUEST_EFFECTS, RequestCondition),
    "disk": (DISK_KEYS, DISK_EFFECTS, DiskCondition),
    "store": (STORE_KEYS, STORE_EFFECTS, StoreCondition),
}
"""Keys of subjects, each with the keys that narrow it, its effects, and its condition."""
KEYS = tuple(
    dict.fromkeys([*(key for keys, effects, _ in SUBJECTS.values() for key in (*keys, *effects)), *CHOICE_KEYS, WHEN])
)


@contextlib.contextmanager
def _naming_key(key: str) -> Iterator[None]:
    try:
        yield
    except FaultError as error:
        with_key = FaultError(str(error))
        with_key.key = key
        raise with_key from None


def _converted(fields: Mapping[str, object], keys: Mapping[str, Callable[[str, object], Any]]) -> dict[str, Any]:
    found = {}
    for key in fields.keys() & keys.keys():
        with _naming_key(key):
            found[key] = keys[key](key, fields[key])
    return found


def parse_rule(fields: Mapping[str, object]) -> RuleParts:
    """Parse a rule of names and values.

    Raises:
        FaultError: the rule is invalid.
    """
    for key in fields:
        with _naming_key(key):
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
                raise FaultError(
                    f"{key} does not apply to a rule about {about[0]} with the effect {effect_key}; remove it"
                )
    narrowed = _converted(fields, condition_keys)
    chosen = Choice(**_converted(fields, CHOICE_KEYS))
    when = _converted(fields, {WHEN: text}).get(WHEN)
    with _naming_key(about[0]):
        condition = kind(**narrowed)
    with _naming_key(effect_key):
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
