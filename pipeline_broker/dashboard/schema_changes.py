"""Changes of schemas, as requests to the broker's schema registry."""

from __future__ import annotations

import http
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from pipeline_broker.dashboard.record_view import Decoder
from pipeline_broker.dashboard.wishes import RequestError, choice, optional_number, optional_text, text
from pipeline_broker.schema_registry.state import RegistryState
from pipeline_broker.schema_registry.values import Level, SchemaType
from pipeline_broker.web.messages import Answer, HttpRequest, StreamedAnswer, refusal

__all__ = ["NO_REGISTRY", "SCHEMA_CHANGES", "Registry", "refusal_of"]

NO_REGISTRY = refusal(http.HTTPStatus.NOT_FOUND, "the broker has no schema registry; start it with --schema-registry")


class Registry(Decoder, Protocol):
    @property
    def state(self) -> RegistryState: ...

    async def catch_up(self) -> None: ...
    async def answer(self, request: HttpRequest) -> Answer | StreamedAnswer: ...


def refusal_of(answer: Answer | StreamedAnswer) -> str | None:
    """Return the message of the registry's error; None if it carried out the change."""
    if isinstance(answer, StreamedAnswer) or answer.status < http.HTTPStatus.BAD_REQUEST:
        return None
    return str(json.loads(answer.body)["message"])


def _request(method: str, *segments: str, body: Mapping[str, Any] | None = None, **query: str) -> HttpRequest:
    return HttpRequest(
        method=method,
        path="/" + "/".join(segments),
        query=query,
        headers={},
        body=b"" if body is None else json.dumps(body).encode(),
        segments=segments,
    )


def _register(body: Mapping[str, Any]) -> HttpRequest:
    kind, references = choice(body, "type", [each.value for each in SchemaType]), body.get("references", [])
    schema = {"schemaType": kind, "schema": text(body, "schema"), "references": references}
    return _request("POST", "subjects", text(body, "subject"), "versions", body=schema)


def _set_compatibility(body: Mapping[str, Any]) -> HttpRequest:
    subject = optional_text(body, "subject")
    place = ("config",) if subject is None else ("config", subject)
    if body.get("level") is None:
        return _request("DELETE", *place)
    return _request("PUT", *place, body={"compatibility": choice(body, "level", [each.value for each in Level])})


def _delete(body: Mapping[str, Any]) -> HttpRequest:
    version, is_permanent = optional_number(body, "version", 1), body.get("permanent", False)
    if not isinstance(is_permanent, bool):
        raise RequestError("permanent must be true or false")
    place = ("subjects", text(body, "subject")) + (() if version is None else ("versions", str(version)))
    return _request("DELETE", *place, permanent=str(is_permanent).lower())


SCHEMA_CHANGES: Mapping[str, Callable[[Mapping[str, Any]], HttpRequest]] = {
    "register-schema": _register,
    "set-compatibility": _set_compatibility,
    "delete-schema": _delete,
}
"""By the last part of the path. A function raises RequestError if the body is invalid."""
