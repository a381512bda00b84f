"""DescribeUserScramCredentials: list the SCRAM mechanisms of users with their iterations."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, int8, int16, int32, string


@attrs.define
class DescribeUserScramCredentialsRequest:
    SCHEMA = schema_of(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)

    @attrs.define
    class UserName:
        name: str = string("0+")

    users: list[DescribeUserScramCredentialsRequest.UserName] | None = array("UserName", "0+", nullable="0+")


@attrs.define
class DescribeUserScramCredentialsResponse:
    SCHEMA = schema_of(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS)

    @attrs.define
    class CredentialInfo:
        mechanism: int = int8("0+")
        iterations: int = int32("0+")

    @attrs.define
    class DescribeUserScramCredentialsResult:
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
