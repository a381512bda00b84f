"""Files that give secrets to settings: settings files with passwords, key stores, and files of config providers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pipeline_broker.base.owner_only import exposure
from pipeline_broker.config.properties import PREFIXED
from pipeline_broker.config.providers import files_of_references, references

__all__ = ["SECRETS", "exposures"]

SECRETS = frozenset({
    "delegation.token.secret.key", "sasl.jaas.config", "sasl.oauthbearer.assertion.private.key.passphrase",
    "sasl.oauthbearer.client.credentials.client.secret", "sasl.oauthbearer.client.secret", "sasl.password",
    "ssl.key.password", "ssl.key.pem", "ssl.keystore.key", "ssl.keystore.password", "ssl.truststore.password",
})  # fmt: skip
# Properties of brokers, of librdkafka and of Java clients.
LOCATIONS = frozenset({"ssl.key.location", "ssl.keystore.location"})
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"  # noqa: S105 - the name of a property


def exposures(
    sources: Iterable[tuple[Path, Iterable[tuple[str, str]]]], given: Mapping[str, str], resolved: Mapping[str, str]
) -> list[str]:
    """Return a warning for each file with secrets that other users can read.

    Args:
        sources: settings files and their settings.
        given: all settings, with their references to config providers.
        resolved: all settings with the values of the references.
    """
    files = [path for path, settings in sources if any(_is_secret(*each) for each in settings)]
    found = dict.fromkeys([*files, *files_of_references(given), *_named(resolved)])
    return [line for line in map(exposure, found) if line is not None]


def _plain(name: str) -> str:
    prefixed = PREFIXED.fullmatch(name)
    return name if prefixed is None else prefixed[1]


def _is_secret(name: str, text: str) -> bool:
    return _plain(name) in SECRETS and bool(text) and not references(text)


def _named(settings: Mapping[str, str]) -> Iterator[Path]:
    for name, text in settings.items():
        if _plain(name) in LOCATIONS and text:
            yield Path(text)
        elif name == TOKEN_URL and text.startswith("file:"):
            yield Path(unquote(urlsplit(text).path))
