"""IncrementalAlterConfigs: sets, deletes, appends to or subtracts from single settings; see `resource_changes`."""

from __future__ import annotations

from pipeline_broker.apis.configs.resource_changes import AlteringApi
from pipeline_broker.wire.messages.configs.incremental_alter_configs import IncrementalAlterConfigsResponse

Response = IncrementalAlterConfigsResponse
_API = AlteringApi(Response, Response.AlterConfigsResourceResponse, replaces=False)
handle, error_response = _API.handle, _API.error_response
