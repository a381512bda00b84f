"""DescribeAcls: list the ACLs that match a filter."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int8, int16, int32, string


@attrs.define
class DescribeAclsRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_ACLS)

    resource_type_filter: int = int8("0+")
    resource_name_filter: str | None = string("0+", nullable="0+")
    pattern_type_filter: int = int8("1+", default=3, ignorable=False)
    principal_filter: str | None = string("0+", nullable="0+")
    host_filter: str | None = string("0+", nullable="0+")
    operation: int = int8("0+")
    permission_type: int = int8("0+")


@attrs.define
class DescribeAclsResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_ACLS)

    @attrs.define
    class DescribeAclsResource:
        resource_type: int = int8("0+")
        resource_name: str = string("0+")
        pattern_type: int = int8("1+", default=3, ignorable=False)
        acls: list[DescribeAclsResponse.AclDescription] = array("AclDescription", "0+")

    @attrs.define
    class AclDescription:
        principal: str = string("0+")
        host: str = string("0+")
        operation: int = int8("0+")
        permission_type: int = int8("0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    resources: list[DescribeAclsResponse.DescribeAclsResource] = array("DescribeAclsResource", "0+")
