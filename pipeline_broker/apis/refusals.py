"""Responses that refuse a request as a whole and carry only an error.

If a refusal must carry more, such as an error for each topic, the API has an `error_response` beside its handler.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.registry import message_classes

__all__ = ["REFUSAL_TEXTS", "refusal"]

REFUSAL_TEXTS: Mapping[ErrorCode, str] = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.INVALID_GROUP_ID: "The group id is invalid.",
    ErrorCode.NOT_COORDINATOR: "This is not the correct coordinator.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
}
"""Kafka's message for a refusal, in responses with an error message."""


def refusal(api_key: int, code: ErrorCode) -> Any:
    """Build the response of an API with `code` as its top-level error, and with a message if the response has one."""
    response = message_classes(api_key)[1]
    if "error_message" in attrs.fields_dict(response):
        return response(error_code=code, error_message=REFUSAL_TEXTS.get(code, code.name))
    return response(error_code=code)
