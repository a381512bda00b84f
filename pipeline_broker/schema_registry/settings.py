"""Validation of subject and global settings.

An accepted setting takes effect. Settings of Confluent's registry that are not implemented here are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeline_broker.base.strict_json import RawJson
from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.records import Config
from pipeline_broker.schema_registry.values import Level

__all__ = ["read_settings"]

LEVELS = ("compatibility", "compatibilityLevel")
TEXTS = frozenset({"alias", "compatibilityGroup"})
OBJECTS = frozenset({"defaultMetadata", "overrideMetadata", "defaultRuleSet", "overrideRuleSet"})
SWITCHES = frozenset({"normalize", "validateFields"})
# Settings of Confluent's registry that this one accepts only with these values, which change nothing.
ABSENT: Mapping[str, tuple[object, ...]] = {
    "compatibilityPolicy": (None, "STRICT", "strict"),
    "validateNewSchemas": (None, False),
    "validateRules": (None, False),
}


def read_settings(fields: Config) -> Config:
    """Return the settings of a request by their names in the topic.

    Raises:
        RegistryError: a value is invalid, or this registry does not support the setting.
    """
    return dict(_read(name, value) for name, value in fields.items() if name not in ABSENT or _is_absent(name, value))


def _is_absent(name: str, value: Any) -> bool:
    if value not in ABSENT[name]:
        raise RegistryError(
            422,
            f"The setting {name} cannot be {str(value)[:100]}: this registry does not support this value. Omit the"
            " setting.",
        )
    return True


def _read(name: str, value: Any) -> tuple[str, Any]:
    if name in LEVELS:
        if value is not None and (not isinstance(value, str) or value.upper() not in Level.__members__):
            raise RegistryError(
                42203, f"Invalid compatibility level. Valid values are {', '.join(sorted(Level.__members__)).lower()}"
            )
        return "compatibilityLevel", None if value is None else value.upper()
    if name in ABSENT or value is None:
        return name, None
    is_text = isinstance(value, str) and not isinstance(value, RawJson)
    wanted = (
        (name in TEXTS and is_text)
        or (name in OBJECTS and isinstance(value, RawJson) and value.startswith("{"))
        or (name in SWITCHES and isinstance(value, bool))
    )
    if wanted:
        return name, value
    known = sorted({LEVELS[0], *TEXTS, *OBJECTS, *SWITCHES})
    if name in known:
        kind = "a string" if name in TEXTS else "a JSON object" if name in OBJECTS else "true or false"
        raise RegistryError(422, f"The setting {name} cannot be {str(value)[:100]}: it must be {kind}.")
    raise RegistryError(422, f"Unrecognized field: {name[:100]}. The settings are {', '.join(known)}.")
