"""Kafka's config providers: values from the environment or files, written as `${provider:path:key}`.

`config.providers` names the providers, and `config.providers.<name>.class` their classes: EnvVarConfigProvider,
FileConfigProvider or DirectoryConfigProvider (KIP-297, KIP-421, KIP-887; Kafka's `ConfigTransformer`). Resolved values
are secrets.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.sources import FILE_BYTES_MAX, read_settings_file
from pipeline_broker.files.bounded_file import read_bounded

__all__ = ["NAMES", "files_of_references", "references", "resolve"]

NAMES = "config.providers"
PACKAGE = "org.apache.kafka.common.config.provider."
REFERENCES_MAX = 100
"""Number of references in one value."""

Lookup = Callable[[str, str], str]
"""Returns the value of a path and a key, or raises ConfigError with the reason only."""


def resolve(settings: Mapping[str, str]) -> tuple[dict[str, str], frozenset[str]]:
    """Return settings with all references resolved, and the names of the settings that had one.

    Call it only with the settings of a startup. Resolving a value that a client sent would let the client read the
    broker's files.

    Raises:
        ConfigError: a reference cannot be resolved; the message shows no value.
    """
    with_references = {
        name: found
        for name, text in settings.items()
        if not name.startswith(f"{NAMES}.") and (found := references(text))
    }
    if not with_references:
        return dict(settings), frozenset()
    declared = tuple(filter(None, map(str.strip, settings.get(NAMES, "").split(","))))
    providers = {name: _provider(name, settings) for name in declared}
    resolved = dict(settings)
    for name, found in with_references.items():
        text = settings[name]
        for reference in found:
            text = text.replace(reference, _value(name, reference, providers), 1)
        resolved[name] = text
    return resolved, frozenset(with_references)


def files_of_references(settings: Mapping[str, str]) -> list[Path]:
    found: dict[Path, None] = {}
    for name, text in settings.items():
        for reference in [] if name.startswith(f"{NAMES}.") else references(text):
            provider, *path, key = reference[2:-1].split(":", 2)
            class_name = settings.get(f"{NAMES}.{provider}.class", "").strip()
            if path and class_name == f"{PACKAGE}FileConfigProvider":
                found[Path(path[0])] = None
            elif path and class_name == f"{PACKAGE}DirectoryConfigProvider":
                found[Path(path[0]) / key] = None
    return list(found)


def references(text: str) -> list[str]:
    """Return the references `${provider:key}` and `${provider:path:key}` in a text, in order.

    Raises:
        ConfigError: the text has more than REFERENCES_MAX of them.
    """
    found = []
    position = 0
    while (begin := text.find("${", position)) >= 0 and (end := text.find("}", begin)) >= 0:
        provider, colon, _ = text[begin + 2 : end].partition(":")
        if colon and provider:
            found.append(text[begin : end + 1])
        position = end + 1
        if len(found) > REFERENCES_MAX:
            raise ConfigError(f"a value may have at most {REFERENCES_MAX} references to config providers")
    return found


def _value(name: str, reference: str, providers: Mapping[str, Lookup]) -> str:
    provider, *path, key = reference[2:-1].split(":", 2)
    lookup = providers.get(provider)
    # Left as a literal text, the reference would be a password that everyone can guess.
    if lookup is None:
        declared = f"{NAMES} names {', '.join(providers)}" if providers else f"{NAMES} is not set"
        raise ConfigError(f"{name}: {reference} cannot be resolved: {declared}")
    try:
        return lookup(path[0] if path else "", key)
    except ConfigError as error:
        raise ConfigError(f"{name}: {reference} cannot be resolved: {error}") from None


def _provider(name: str, settings: Mapping[str, str]) -> Lookup:
    class_name = settings.get(f"{NAMES}.{name}.class", "").strip()
    parameters = f"{NAMES}.{name}.param."
    known = {
        f"{PACKAGE}EnvVarConfigProvider": lambda: _environment(settings.get(f"{parameters}allowlist.pattern")),
        f"{PACKAGE}FileConfigProvider": lambda: _files(_allowed(settings.get(f"{parameters}allowed.paths"))),
        f"{PACKAGE}DirectoryConfigProvider": lambda: _directories(_allowed(settings.get(f"{parameters}allowed.paths"))),
    }
    if class_name in known:
        return known[class_name]()

    # An unsupported class is an error only if a setting refers to the provider.
    def unknown(_path: str, _key: str) -> str:
        classes = ", ".join(each.removeprefix(PACKAGE) for each in known)
        raise ConfigError(
            f"the class {class_name or '(none)'} of the provider {name} is not supported; use one of {classes}"
        )

    return unknown


def _environment(pattern: str | None) -> Lookup:
    from pipeline_broker.base.patterns import InvalidPatternError, compiled_java  # noqa: PLC0415 - most starts need no RE2

    def lookup(path: str, key: str) -> str:
        if path:
            raise ConfigError("an environment variable has no path; write ${provider:VARIABLE}")
        try:
            is_allowed = pattern is None or compiled_java(pattern).matches(key)
        except InvalidPatternError as error:
            raise ConfigError(f"allowlist.pattern is not a regular expression: {error}") from None
        if not is_allowed or key not in os.environ:
            raise ConfigError(
                "the variable is not set. Set it in the environment of the broker"
                if is_allowed
                else "allowlist.pattern does not allow the variable. Extend the pattern"
            )
        return os.environ[key]

    return lookup


def _files(allowed: tuple[Path, ...] | None) -> Lookup:
    def lookup(path: str, key: str) -> str:
        values = dict(read_settings_file(_within(Path(path), allowed), is_properties=True))
        if key not in values:
            raise ConfigError("the file has no such key. Add the key to the file")
        return values[key]

    return lookup


def _directories(allowed: tuple[Path, ...] | None) -> Lookup:
    def lookup(path: str, key: str) -> str:
        if not key or "/" in key or key in (".", ".."):
            raise ConfigError("the key is not the name of a file. Write ${provider:DIRECTORY:FILE}")
        file = _within(Path(path) / key, allowed)
        try:
            return read_bounded(file, FILE_BYTES_MAX)[0].decode("utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read {file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"cannot read {file}: it is not UTF-8 text") from None

    return lookup


def _allowed(paths: str | None) -> tuple[Path, ...] | None:
    if paths is None:
        return None
    return tuple(Path(os.path.realpath(path.strip())) for path in paths.split(",") if path.strip())


def _within(path: Path, allowed: tuple[Path, ...] | None) -> Path:
    if not path.is_absolute():
        raise ConfigError(f"{path} is not an absolute path. Begin it with /")
    real = Path(os.path.realpath(path))  # a link must not lead out of the allowed paths
    if allowed is not None and not any(real == each or each in real.parents for each in allowed):
        raise ConfigError(f"allowed.paths does not allow {path}. Add its directory")
    return real
