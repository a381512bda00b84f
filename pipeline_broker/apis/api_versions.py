"""ApiVersions: what this broker serves.

A version that is not served is answered in the layout of version 0, so that any client can read it (KIP-511); the
connection stays usable.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.wire.codec import encoder
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.registry import ApiKey

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call
    from stages.request import Send

__all__ = ["REQUEST", "error_response", "handle", "unsupported_version"]

REQUEST = ApiVersionsRequest
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
"""What KIP-511 allows as name or version of a client's software."""
NAMED_FROM = 3


def handle(call: Call, request: ApiVersionsRequest) -> Send:
    """Answer, and remember the client's software for the requests that follow."""
    if call.version >= NAMED_FROM:
        name, version = request.client_software_name, request.client_software_version
        if not SOFTWARE.fullmatch(name) or not SOFTWARE.fullmatch(version):
            return call.send(error_response(request, call, ErrorCode.INVALID_REQUEST))
        call.session.software_name, call.session.software_version = name, version
    return call.send(ApiVersionsResponse(api_keys=_api_keys()))


def _api_keys() -> list[ApiVersionsResponse.ApiVersion]:
    return [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=lowest, max_version=highest)
        for key, (lowest, highest) in sorted((served.key, served.advertised) for served in SERVED.values())
    ]


def unsupported_version(call: Call) -> Send:
    """The answer to a version that is not served: layout 0, and only this API's own range."""
    lowest, highest = SERVED[ApiKey.API_VERSIONS].advertised
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=lowest, max_version=highest)],
    )
    return call.send_encoded(encoder(ApiVersionsResponse, 0)(response))


def error_response(request: ApiVersionsRequest, call: Call, code: ErrorCode) -> ApiVersionsResponse:
    """The response that carries only an error."""
    return ApiVersionsResponse(error_code=code)
