"""Schemas of a registry with Confluent's REST API, and the records that were serialized with them."""

from __future__ import annotations

import json
from collections import OrderedDict
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from pipeline_broker.client.errors import ClientError
from pipeline_broker.client.http_request import (
    RequestFailedError,
    UntrustedServerError,
    basic_authorization,
    send_request,
)
from pipeline_broker.client.record_json import JsonText
from pipeline_broker.records.record import Record
from pipeline_broker.schema_registry.decoding import decoded_json, schema_id_of
from pipeline_broker.schema_registry.errors import RegistryError
from pipeline_broker.schema_registry.formats import TEXT_CHARACTERS_MAX, ResolvedSchema
from pipeline_broker.schema_registry.references import resolve
from pipeline_broker.schema_registry.values import Reference, Schema, Version

__all__ = ["RemoteSchemas"]

ANSWER_SECONDS_MAX = 10.0
ANSWER_BYTES_MAX = 8 * TEXT_CHARACTERS_MAX
SCHEMAS_MAX = 1_000
"""Schemas that are remembered; the least recently used one is forgotten first."""


class RemoteSchemas:
    """The schemas of a registry, by id. It waits for the registry, so call it in a thread.

    Args:
        url: address of the registry, with a user and a password if it needs them.

    Raises:
        ValueError: the address is not one of HTTP.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is not an address such as http://127.0.0.1:8081")
        self._base = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if parts.username is not None:
            user, password = unquote(parts.username), unquote(parts.password or "")
            self._headers["Authorization"] = basic_authorization(user, password)
        self._schemas: OrderedDict[int, ResolvedSchema | None] = OrderedDict()

    def decoded(self, record: Record) -> Record:
        """Return a record with its serialized key and value as JsonText; others are unchanged.

        Raises:
            ClientError: the registry cannot be reached, or refuses.
        """
        return record._replace(key=self._decoded(record.key), value=self._decoded(record.value))

    def _decoded(self, content: bytes | None) -> bytes | None:
        schema_id = schema_id_of(content)
        resolved = None if schema_id is None else self._schema(schema_id)
        text = None if resolved is None or content is None else decoded_json(resolved, content)
        return content if text is None else JsonText(text.encode())

    def _schema(self, schema_id: int) -> ResolvedSchema | None:
        if schema_id in self._schemas:
            self._schemas.move_to_end(schema_id)
            return self._schemas[schema_id]
        answer = self._ask(f"/schemas/ids/{schema_id}")
        found = None
        if answer is not None:
            try:
                found = resolve(self, Schema.read(answer))
            except RegistryError:
                found = None
        self._schemas[schema_id] = found
        if len(self._schemas) > SCHEMAS_MAX:
            self._schemas.popitem(last=False)
        return found

    def resolved(self, reference: Reference) -> Version:
        subject, number = reference.subject, reference.version
        answer = self._ask(f"/subjects/{quote(subject, safe='')}/versions/{number}?deleted=true")
        if answer is None:
            raise RegistryError(HTTPStatus.NOT_FOUND, f"Version {number} of {subject} not found")
        return Version(subject, number, answer.get("id", 0), Schema.read(answer))

    def _ask(self, path: str) -> dict[str, Any] | None:
        url = self._base + path
        try:
            response = send_request(url, self._headers, seconds_max=ANSWER_SECONDS_MAX, bytes_max=ANSWER_BYTES_MAX)
        except UntrustedServerError as error:
            raise _unread(url, str(error), "Name the file of its authority in SSL_CERT_FILE") from None
        except RequestFailedError as error:
            raise _unread(url, str(error)) from None
        if response.status == HTTPStatus.NOT_FOUND:
            return None
        if response.status == HTTPStatus.UNAUTHORIZED:
            advice = "Write user and password into --schema-registry, as in https://USER:PASSWORD@HOST:PORT"
            raise _unread(url, f"HTTP {response.status} {response.reason}", advice)
        if not response.is_success:
            raise _unread(url, f"HTTP {response.status} {response.reason}")
        try:
            answer = json.loads(response.body)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise _unread(url, "the answer is not a JSON object")
        return answer


def _unread(url: str, reason: str, advice: str = "Check the address of --schema-registry") -> ClientError:
    return ClientError(f"cannot read the schema at {url}: {reason}. {advice}")
