"""AlterUserScramCredentials: set and delete what SCRAM users prove themselves by; requests print no secret."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, binary, int8, int16, int32, string


@attrs.define
class AlterUserScramCredentialsRequest:
    """Request of API key 51: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=51, versions="0", flexible="0+")

    @attrs.define
    class ScramCredentialDeletion:
        """One element of `deletions`."""

        name: str = string("0+")
        mechanism: int = int8("0+")

    @attrs.define(repr=False)
    class ScramCredentialUpsertion:
        """One element of `upsertions`."""

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
    """Response of API key 51: version 0, flexible 0+."""

    SCHEMA: ClassVar[Schema] = Schema(key=51, versions="0", flexible="0+")

    @attrs.define
    class AlterUserScramCredentialsResult:
        """One element of `results`."""

        user: str = string("0+")
        error_code: int = int16("0+")
        error_message: str | None = string("0+", nullable="0+")

    throttle_time_ms: int = int32("0+")
    results: list[AlterUserScramCredentialsResponse.AlterUserScramCredentialsResult] = array(
        "AlterUserScramCredentialsResult", "0+"
    )
