"""AlterConfigs: all settings of a resource at once; what is not named goes back to its default. See `resource_changes`.

The predecessor of IncrementalAlterConfigs, which clients of today use instead.
"""

from __future__ import annotations

from pipeline_broker.apis.configs.resource_changes import AlteringApi
from pipeline_broker.wire.messages.configs.alter_configs import AlterConfigsResponse

_API = AlteringApi(AlterConfigsResponse, AlterConfigsResponse.AlterConfigsResourceResponse, replaces=True)
handle, error_response = _API.handle, _API.error_response
