"""UpdateFeatures: finalize levels of features, all that a request names or none; answered when that is durable.

Until version 1 the response lists each feature that was updated. As in Apache Kafka, version 0 cannot downgrade: what
it says of that is not looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipeline_broker.apis.authorization import REFUSAL_TEXTS, may_of_cluster
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.features import FeatureError, FeatureUpdate
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.cluster.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from stages.request import Result

if TYPE_CHECKING:
    from pipeline_broker.apis.call import Call

__all__ = ["REQUEST", "error_response", "handle"]

REQUEST = UpdateFeaturesRequest
FeatureResult = UpdateFeaturesResponse.UpdatableFeatureResult
RESULTS_UNTIL = 1
NO_ERROR_TEXT = "NONE"


def handle(call: Call, request: UpdateFeaturesRequest) -> Result:
    """Finalize what may be finalized."""
    if not may_of_cluster(call, AclOperation.ALTER):
        return call.send(error_response(request, call, ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    features = call.broker.features
    updates = [
        FeatureUpdate(update.feature, update.max_version_level, update.upgrade_type)
        for update in request.feature_updates
    ]
    try:
        write = features.update(updates, SERVED, validate_only=request.validate_only)
    except FeatureError as error:
        text = f"The update failed for all features since the following feature had an error: {error.message}"
        return call.send(UpdateFeaturesResponse(error_code=error.code, error_message=text))
    response = UpdateFeaturesResponse(error_message=None)
    if call.version <= RESULTS_UNTIL:
        names = dict.fromkeys(update.name for update in updates)
        response.results = [FeatureResult(name, error_message=NO_ERROR_TEXT) for name in names]
    changes = [] if write is None else [(write, features.durable)]
    return call.broker.commit_metadata(changes, call.now_ms, call.send(response))


def error_response(request: UpdateFeaturesRequest, call: Call, code: ErrorCode) -> UpdateFeaturesResponse:
    """The response that carries only an error."""
    return UpdateFeaturesResponse(error_code=code, error_message=REFUSAL_TEXTS.get(code, code.name))
