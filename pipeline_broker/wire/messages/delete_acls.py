"""DeleteAcls: take the rules of access away that filters mean."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int8, int16, int32, string


@attrs.define
class DeleteAclsRequest:
    """Request of API key 31: versions 1-3, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=31, versions="1-3", flexible="2+")

    @attrs.define
    class DeleteAclsFilter:
        """One element of `filters`."""

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
    """Response of API key 31: versions 1-3, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=31, versions="1-3", flexible="2+")

    @attrs.define
    class DeleteAclsFilterResult:
        """One element of `filter_results`."""

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        matching_acls: list[DeleteAclsResponse.DeleteAclsMatchingAcl] = array("DeleteAclsMatchingAcl", "0+")

    @attrs.define
    class DeleteAclsMatchingAcl:
        """One element of `matching_acls`."""

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
