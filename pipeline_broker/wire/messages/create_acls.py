"""CreateAcls: add rules of access."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int8, int16, int32, string


@attrs.define
class CreateAclsRequest:
    """Request of API key 30: versions 1-3, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=30, versions="1-3", flexible="2+")

    @attrs.define
    class AclCreation:
        """One element of `creations`."""

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
    """Response of API key 30: versions 1-3, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=30, versions="1-3", flexible="2+")

    @attrs.define
    class AclCreationResult:
        """One element of `results`."""

        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[CreateAclsResponse.AclCreationResult] = array("AclCreationResult", "0+")
