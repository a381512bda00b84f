"""AlterConfigs: replaces all settings of a resource; settings that are not named return to their defaults.

AlterConfigs is the predecessor of IncrementalAlterConfigs. Both share `resource_changes`.
"""

from __future__ import annotations

from pipeline_broker.apis.configs.resource_changes import AlteringApi
from pipeline_broker.wire.messages.configs.alter_configs import AlterConfigsResponse

_API = AlteringApi(AlterConfigsResponse, AlterConfigsResponse.AlterConfigsResourceResponse, replaces=True)
handle, error_response = _API.handle, _API.error_response
