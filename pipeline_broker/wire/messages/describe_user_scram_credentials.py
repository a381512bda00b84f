"""DescribeUserScramCredentials: which SCRAM mechanisms users have, and with how many iterations."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, int8, int16, int32, string


@attrs.define
class DescribeUserScramCredentialsRequest:
    """Request of API key 50: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=50, versions="0", flexible="0+")

    @attrs.define
    class UserName:
        """One element of `users`."""

        name: str = string("0+")

    users: list[DescribeUserScramCredentialsRequest.UserName] | None = array("UserName", "0+", nullable="0+")


@attrs.define
class DescribeUserScramCredentialsResponse:
    """Response of API key 50: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=50, versions="0", flexible="0+")

    @attrs.define
    class CredentialInfo:
        """One element of `credential_infos`."""

        mechanism: int = int8("0+")
        iterations: int = int32("0+")

    @attrs.define
    class DescribeUserScramCredentialsResult:
        """One element of `results`."""

        user: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")
        credential_infos: list[DescribeUserScramCredentialsResponse.CredentialInfo] = array("CredentialInfo", "0+")

    throttle_time_ms: int = int32("0+")
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    results: list[DescribeUserScramCredentialsResponse.DescribeUserScramCredentialsResult] = array(
        "DescribeUserScramCredentialsResult", "0+"
    )
