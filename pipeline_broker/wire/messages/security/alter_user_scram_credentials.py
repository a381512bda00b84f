"""AlterUserScramCredentials: set and delete SCRAM credentials of users. The `repr` of a request shows no secrets."""

from __future__ import annotations

import attrs

from pipeline_broker.wire.registry import ApiKey, schema_of
from pipeline_broker.wire.schema import array, binary, int8, int16, int32, string


@attrs.define
class AlterUserScramCredentialsRequest:
    SCHEMA = schema_of(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)

    @attrs.define
    class ScramCredentialDeletion:
        name: str = string("0+")
        mechanism: int = int8("0+")

    @attrs.define(repr=False)
    class ScramCredentialUpsertion:
        name: str = string("0+")
        mechanism: int = int8("0+")
        iterations: int = int32("0+")
        salt: bytes = binary("0+")
        salted_password: bytes = binary("0+")

    deletions: list[AlterUserScramCredentialsRequest.ScramCredentialDeletion] = array("ScramCredentialDeletion", "0+")
    upsertions: list[AlterUserScramCredentialsRequest.ScramCredentialUpsertion] = array(
        "ScramCredentialUpsertion", "0+"
    )


@attrs.define
class AlterUserScramCredentialsResponse:
    SCHEMA = schema_of(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)

    @attrs.define
    class AlterUserScramCredentialsResult:
        user: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = array(
        "AlterUserScramCredentialsResult", "0+"
    )
