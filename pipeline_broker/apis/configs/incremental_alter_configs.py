"""IncrementalAlterConfigs: set, delete, append to or subtract from single settings; see `resource_changes`."""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.configs.alteration import Alteration, SettingChange
from pipeline_broker.apis.configs.resource_changes import alter_resources
from pipeline_broker.apis.steps import Stepwise, commit_changes
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.configs.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from stages.request import Result

Resource = IncrementalAlterConfigsRequest.AlterConfigsResource
ResourceResponse = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse


def handle(call: Call, request: IncrementalAlterConfigsRequest) -> Stepwise[Result]:
    """Alter what may be altered."""
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            [SettingChange(each.name, each.config_operation, each.value) for each in resource.configs],
        )
        for resource in request.resources
    ]
    told, changes = yield from alter_resources(call, alterations, validate_only=request.validate_only)
    responses = [_response(resource, *each) for resource, each in zip(request.resources, told, strict=True)]
    return (yield from commit_changes(call, changes, IncrementalAlterConfigsResponse(responses=responses)))


def _response(resource: Resource, code: ErrorCode, message: str | None = None) -> ResourceResponse:
    return ResourceResponse(code, message, resource.resource_type, resource.resource_name)


def error_response(
    request: IncrementalAlterConfigsRequest,
    call: Call,
    code: ErrorCode,
) -> IncrementalAlterConfigsResponse:
    """Every resource with the same error."""
    return IncrementalAlterConfigsResponse(responses=[_response(resource, code) for resource in request.resources])
