"""Lines of the request log: the request, the response and the times of its stages, without secrets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeline_broker.config.properties import PREFIXED, broker_properties, topic_properties
from pipeline_broker.telemetry.log_lines import utc
from pipeline_broker.traces.stage_durations import stage_durations
from pipeline_broker.wire.codec import decoder, versions_of
from pipeline_broker.wire.header import read_request_header, read_response_header
from pipeline_broker.wire.json_form import json_form
from pipeline_broker.wire.registry import ApiKey, message_classes
from stages.request import Send

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pipeline_broker.config.properties import Property
    from stages.request import Request

__all__ = ["HIDDEN", "line_of"]

HIDDEN = "[hidden]"
SECRET_FIELDS = frozenset({"salt", "saltedPassword", "authBytes", "hmac"})
ALTERS_CONFIGS = frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS})
TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
NO_SOFTWARE = "unknown"
MICROSECONDS = 1000
LEVEL = "DEBUG"  # of Kafka's kafka.request.logger


def line_of(request: Request, ended_ns: int, ended_at: float) -> dict[str, Any]:
    """Return the fields of a line: `time` and `level`, followed by the fields of Kafka's log in Kafka's order.

    Call it in a thread: a large request takes long. Values of secret or unknown settings are hidden, as in Apache
    Kafka, and so are salts, passwords and tokens. Records are replaced by their size.

    Args:
        request: a request that was answered, or dropped because its connection closed.
        ended_ns: end of the request, on the clock of its stamps.
        ended_at: end of the request, in seconds since 1970.

    Raises:
        DecodeError: the request is malformed.
    """
    header, position = read_request_header(request.frame)
    key, version = header.api_key, header.api_version
    request_class, response_class = message_classes(key)
    body_version = version if version in versions_of(request_class) else 0  # ApiVersions of a newer client
    header_form: dict[str, Any] = {
        "requestApiKey": key,
        "requestApiVersion": version,
        "correlationId": header.correlation_id,
        "clientId": header.client_id,
        "requestApiKeyName": ApiKey(key).name,
    }
    body: Any = ""
    if body_version == version and not request.is_cut:
        message, _ = decoder(request_class, version)(request.frame, position)
        body = json_form(message, version)
        if key in ALTERS_CONFIGS:
            _hide_values(body)
    line: dict[str, Any] = {
        "time": utc(ended_at),
        "level": LEVEL,
        "isForwarded": False,
        "requestHeader": header_form,
        "request": _without_secrets(body),
        "response": _without_secrets(_response(request, response_class, key, body_version)),
        "connection": request.connection.id,
    }
    line.update(_times(request, ended_ns))
    line.update(_client(request))
    return line


def _response(request: Request, response_class: type[Any], key: int, version: int) -> Any:
    if type(request.result) is not Send:
        return ""
    answer = request.answer
    if answer is None:  # the fast path of produce makes bytes without a message
        frame = b"".join(map(bytes, request.result.parts))
        _, position = read_response_header(key, version, frame)
        answer, _ = decoder(response_class, version)(frame, position)
    return json_form(answer, version)


def _times(request: Request, ended_ns: int) -> dict[str, float]:
    """Return the times of the stages in milliseconds, truncated to microseconds; 0 for a stage that was skipped."""
    durations = stage_durations(request, ended_ns)
    spans = {
        "totalTimeMs": durations.total_ns,
        "requestQueueTimeMs": durations.request_queue_ns,
        "localTimeMs": durations.local_ns,
        "remoteTimeMs": durations.remote_ns,
        "throttleTimeMs": 0,
        "responseQueueTimeMs": durations.response_queue_ns,
        "sendTimeMs": durations.response_send_ns,
    }
    times: dict[str, float] = {name: span // MICROSECONDS / 1000 for name, span in spans.items()}
    times["throttleTimeMs"] = request.throttle_ms
    return times


def _client(request: Request) -> dict[str, Any]:
    session, listener = request.connection.session, request.connection.listener
    # The client sends its software in ApiVersions. As in Kafka, the line of that request does not have it yet.
    is_known = request.sequence > session.software_since
    return {
        "securityProtocol": session.security_protocol,
        "principal": str(session.principal),
        "listener": listener,
        "clientInformation": {
            "softwareName": session.software_name if is_known else NO_SOFTWARE,
            "softwareVersion": session.software_version if is_known else NO_SOFTWARE,
        },
    }


def _hide_values(body: dict[str, Any]) -> None:
    for resource in body["resources"]:
        for config in resource["configs"]:
            if may_be_secret(resource["resourceType"], config["name"]):
                config["value"] = HIDDEN


def may_be_secret(resource_type: int, name: str) -> bool:
    """Return whether a setting of a resource is secret or unknown. Log levels are neither."""
    if resource_type == BROKER_LOGGER:
        # The values are log levels.
        return False
    known: Mapping[str, Property] = {}
    if resource_type == BROKER:
        known = broker_properties()
    elif resource_type == TOPIC:
        known = topic_properties()
    definition = known.get(name)
    if definition is None and resource_type == BROKER:
        prefixed = PREFIXED.fullmatch(name)
        definition = known.get(prefixed[1]) if prefixed else None
    return definition is None or definition.sensitive


def _without_secrets(form: Any) -> Any:
    if isinstance(form, dict):
        return {
            name: HIDDEN if name in SECRET_FIELDS and value is not None else _without_secrets(value)
            for name, value in form.items()
        }
    return [_without_secrets(element) for element in form] if isinstance(form, list) else form
