"""AlterConfigs: all settings of a resource at once; what is not named goes back to its default. See `resource_changes`.

The predecessor of IncrementalAlterConfigs, which clients of today use instead.
"""

from __future__ import annotations

from pipeline_broker.apis.call import Call
from pipeline_broker.apis.configs.alteration import Alteration, SettingChange
from pipeline_broker.apis.configs.resource_changes import alter_resources
from pipeline_broker.apis.steps import Stepwise, commit_changes
from pipeline_broker.config.resolution import Operation
from pipeline_broker.wire.error import ErrorCode
from pipeline_broker.wire.messages.configs.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from stages.request import Result

Resource = AlterConfigsRequest.AlterConfigsResource
ResourceResponse = AlterConfigsResponse.AlterConfigsResourceResponse


def handle(call: Call, request: AlterConfigsRequest) -> Stepwise[Result]:
    """Alter what may be altered."""
    alterations = [
        Alteration(
            resource.resource_type,
            resource.resource_name,
            [SettingChange(each.name, Operation.SET, each.value) for each in resource.configs],
            replaces=True,
        )
        for resource in request.resources
    ]
    told, changes = yield from alter_resources(call, alterations, validate_only=request.validate_only)
    responses = [_response(resource, *each) for resource, each in zip(request.resources, told, strict=True)]
    return (yield from commit_changes(call, changes, AlterConfigsResponse(responses=responses)))


def _response(resource: Resource, code: ErrorCode, message: str | None = None) -> ResourceResponse:
    return ResourceResponse(code, message, resource.resource_type, resource.resource_name)


def error_response(request: AlterConfigsRequest, call: Call, code: ErrorCode) -> AlterConfigsResponse:
    """Every resource with the same error."""
    return AlterConfigsResponse(responses=[_response(resource, code) for resource in request.resources])
