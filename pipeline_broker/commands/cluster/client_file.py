"""The properties of a connection in a client's file, which may hold those of producers, consumers and registries, too.

Kafka's programs share such files and ignore the properties of other programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from pipeline_broker.client.security import PROPERTIES
from pipeline_broker.config.providers import NAMES, resolve
from pipeline_broker.config.secret_files import exposures
from pipeline_broker.config.sources import read_settings_file
from pipeline_broker.config.unknown_names import misspelled

__all__ = ["BOOTSTRAP_PROPERTY", "read_client_file", "warn_of_exposed"]

BOOTSTRAP_PROPERTY = "bootstrap.servers"
# Unknown names with these prefixes are refused later: without them the connection could be less secure than expected.
_OF_SECURITY = ("enable.ssl.", "sasl.", "security.", "ssl.")


def warn_of_exposed(path: Path | None, properties: Mapping[str, str]) -> None:
    every = [] if path is None else read_settings_file(path)
    settings = [(name, text) for name, text in every if name in properties or name.startswith(NAMES)]
    sources = [] if path is None else [(path, settings)]
    for line in exposures(sources, dict(settings), properties):
        click.echo(f"Warning: {line}", err=True)


def read_client_file(path: Path) -> dict[str, str]:
    """Return the properties of the connection, with unknown TLS and SASL properties and probable misspellings.

    References to other sources, such as `${file:/run/secrets:password}`, are resolved by the file's `config.providers`.

    Raises:
        ConfigError: the file cannot be read, or a reference cannot be resolved.
    """
    known = (BOOTSTRAP_PROPERTY, *PROPERTIES)
    given = dict(read_settings_file(path))
    providers = {name: text for name, text in given.items() if name == NAMES or name.startswith(f"{NAMES}.")}
    kept = {
        name: text
        for name, text in given.items()
        if name in known or name.startswith(_OF_SECURITY) or misspelled(name, known) is not None
    }
    resolved, _ = resolve(providers | kept)
    return {name: resolved[name] for name in kept if name not in providers}
