"""ApiVersions: the served APIs with their version ranges, and the cluster's features.

A request with an unsupported version gets a response in the layout of version 0, which every client can read (KIP-511).
The connection stays open.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.wire.codec import encoder
from pipeline_broker.wire.messages.cluster.api_versions import ApiVersionsRequest, ApiVersionsResponse
from pipeline_broker.wire.registry import ApiKey

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Envelope
    from pipeline_broker.state.features import Features
    from stages.request import Send

__all__ = ["handle", "is_valid", "unsupported_version"]

# The software names and versions that KIP-511 allows.
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
SOFTWARE_CHARACTERS_MAX = 256
"""Characters of a client's software name; the rest is cut."""
CLIENT_ID_CHARACTERS_MAX = 200
"""Characters of a client id; the rest is cut."""
NAMED_FROM = 3
ZERO_FROM = 4
DESTINATION_FROM = 5
NO_NODE = -1
# APIs that are advertised only if the broker stores client metrics.
TELEMETRY = frozenset({ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY})


def handle(call: Envelope, request: ApiVersionsRequest) -> Send:
    """Return the response, and remember the client's id and software for the list of connections.

    A request that names invalid software gets INVALID_REQUEST, and nothing is remembered.
    """
    if not is_valid(call, request):
        return call.refuse(ErrorCode.INVALID_REQUEST)
    if call.version >= DESTINATION_FROM and not _has_arrived(call, request):
        return call.refuse(ErrorCode.REBOOTSTRAP_REQUIRED)
    call.session.client_id = None if call.client_id is None else call.client_id[:CLIENT_ID_CHARACTERS_MAX]
    if call.version >= NAMED_FROM:
        call.session.software_name = request.client_software_name[:SOFTWARE_CHARACTERS_MAX]
        call.session.software_version = request.client_software_version[:SOFTWARE_CHARACTERS_MAX]
        call.session.software_since = call.sequence
    response = ApiVersionsResponse(api_keys=_api_keys(call))
    if call.version >= NAMED_FROM and call.features is not None:
        _add_features(call, call.features, response)
    return call.send(response)


def _has_arrived(call: Envelope, request: ApiVersionsRequest) -> bool:
    # KIP-1242: a name or an address may lead a client to another broker.
    return request.cluster_id is None or call.destination in {None, (request.cluster_id, request.node_id)}


def _add_features(call: Envelope, features: Features, response: ApiVersionsResponse) -> None:
    # Clients before version 4 fail on a minimum level of 0 (KAFKA-17492).
    least = 0 if call.version >= ZERO_FROM else 1
    response.supported_features = [
        ApiVersionsResponse.SupportedFeatureKey(feature.name, feature.min_level, feature.max_level)
        for feature in features.supported(SERVED)
        if feature.min_level >= least
    ]
    response.finalized_features = [
        ApiVersionsResponse.FinalizedFeatureKey(name, max_version_level=level, min_version_level=level)
        for name, level in features.finalized(SERVED)
    ]
    response.finalized_features_epoch = features.epoch


def is_valid(call: Envelope, request: ApiVersionsRequest) -> bool:
    """Return whether the client names valid software, and both a cluster and a broker or neither.

    Versions before 3 name no software and are valid.
    """
    names = (request.client_software_name, request.client_software_version)
    is_whole = (request.cluster_id is None) == (request.node_id == NO_NODE)
    return call.version < NAMED_FROM or (is_whole and all(map(SOFTWARE.fullmatch, names)))


def _api_keys(call: Envelope) -> list[ApiVersionsResponse.ApiVersion]:
    hidden = frozenset() if call.is_telemetry_wanted else TELEMETRY
    return [
        ApiVersionsResponse.ApiVersion(api_key=key, min_version=lowest, max_version=highest)
        for key, (lowest, highest) in sorted((served.key, served.advertised) for served in SERVED.values())
        if key not in hidden
    ]


def unsupported_version(call: Envelope) -> Send:
    """Build the response to an unsupported version: layout 0, and only the range of ApiVersions itself."""
    lowest, highest = SERVED[ApiKey.API_VERSIONS].advertised
    response = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersionsResponse.ApiVersion(api_key=ApiKey.API_VERSIONS, min_version=lowest, max_version=highest)],
    )
    call.show(response)
    return call.send_encoded(encoder(ApiVersionsResponse, 0)(response))
