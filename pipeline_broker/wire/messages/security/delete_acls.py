"""DeleteAcls: delete the ACLs that match filters."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int8, int16, int32, string


@attrs.define
class DeleteAclsRequest:
    SCHEMA = schema_of(ApiKey.DELETE_ACLS)

    @attrs.define
    class DeleteAclsFilter:
        resource_type_filter: int = int8("0+")
        resource_name_filter: str | None = string("0+", nullable="0+")
        pattern_type_filter: int = int8("1+", default=3, ignorable=False)
        principal_filter: str | None = string("0+", nullable="0+")
        host_filter: str | None = string("0+", nullable="0+")
        operation: int = int8("0+")
        permission_type: int = int8("0+")

    filters: list[DeleteAclsRequest.DeleteAclsFilter] = array("DeleteAclsFilter", "0+")


@attrs.define
class DeleteAclsResponse:
    SCHEMA = schema_of(ApiKey.DELETE_ACLS)

    @attrs.define
    class DeleteAclsFilterResult:
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = array("DeleteAclsMatchingAcl", "0+")

    @attrs.define
    class DeleteAclsMatchingAcl:
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        pattern_type: int = int8("1+", default=3, ignorable=False)
        principal: str = string("0+")
        host: str = string("0+")
        operation: int = int8("0+")
        permission_type: int = int8("0+")

    throttle_time_ms: int = int32("0+")
    filter_results: list[DeleteAclsResponse.DeleteAclsFilterResult] = array("DeleteAclsFilterResult", "0+")
