"""CreateAcls: add ACLs."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int8, int16, int32, string


@attrs.define
class CreateAclsRequest:
    SCHEMA = schema_of(ApiKey.CREATE_ACLS)

    @attrs.define
    class AclCreation:
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        resource_pattern_type: int = int8("1+", default=3)
        principal: str = string("0+")
        host: str = string("0+")
        operation: int = int8("0+")
        permission_type: int = int8("0+")

    creations: list[CreateAclsRequest.AclCreation] = array("AclCreation", "0+")


@attrs.define
class CreateAclsResponse:
    SCHEMA = schema_of(ApiKey.CREATE_ACLS)

    @attrs.define
    class AclCreationResult:
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[CreateAclsResponse.AclCreationResult] = array("AclCreationResult", "0+")
