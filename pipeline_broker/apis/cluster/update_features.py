"""UpdateFeatures: finalizes the levels of all named features, or of none.

Up to version 1 the response lists each updated feature. As in Apache Kafka, version 0 cannot downgrade: its downgrade
field is ignored.
"""

from __future__ import annotations

from pipeline_broker.apis.authorization import authorize_cluster
from pipeline_broker.apis.call import Call
from pipeline_broker.apis.registry import SERVED
from pipeline_broker.base.error_code import ErrorCode
from pipeline_broker.security.acl import AclOperation
from pipeline_broker.state.features import FeatureError, FeatureUpdate
from pipeline_broker.wire.messages.cluster.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from stages.request import Result

FeatureResult = UpdateFeaturesResponse.UpdatableFeatureResult
RESULTS_UNTIL = 1
NO_ERROR_TEXT = "NONE"


def handle(call: Call, request: UpdateFeaturesRequest) -> Result:
    if not authorize_cluster(call, AclOperation.ALTER):
        return call.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
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
