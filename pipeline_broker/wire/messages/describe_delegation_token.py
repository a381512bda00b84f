"""DescribeDelegationToken: the tokens that a client may see."""

from __future__ import annotations

from typing import ClassVar

import attrs

from pipeline_broker.wire.schema import Schema, array, binary, int16, int32, int64, string


@attrs.define
class DescribeDelegationTokenRequest:
    """Request of API key 41: versions 1-3, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=41, versions="1-3", flexible="2+")

    @attrs.define
    class DescribeDelegationTokenOwner:
        """One element of `owners`."""

        principal_type: str = string("0+")
        principal_name: str = string("0+")

    owners: list[DescribeDelegationTokenRequest.DescribeDelegationTokenOwner] | None = array(
        "DescribeDelegationTokenOwner", "0+", nullable="0+"
    )


@attrs.define
class DescribeDelegationTokenResponse:
    """Response of API key 41: versions 1-3, flexible 2+."""

    SCHEMA: ClassVar[Schema] = Schema(key=41, versions="1-3", flexible="2+")

    @attrs.define
    class DescribedDelegationToken:
        """One element of `tokens`."""

        principal_type: str = string("0+")
        principal_name: str = string("0+")
        token_requester_principal_type: str = string("3+")
        token_requester_principal_name: str = string("3+")
        issue_timestamp: int = int64("0+")
        expiry_timestamp: int = int64("0+")
        max_timestamp: int = int64("0+")
        token_id: str = string("0+")
        hmac: bytes = binary("0+")
        renewers: list[DescribeDelegationTokenResponse.DescribedDelegationTokenRenewer] = array(
            "DescribedDelegationTokenRenewer", "0+"
        )

    @attrs.define
    class DescribedDelegationTokenRenewer:
        """One element of `renewers`."""

        principal_type: str = string("0+")
        principal_name: str = string("0+")

    error_code: int = int16("0+")
    tokens: list[DescribeDelegationTokenResponse.DescribedDelegationToken] = array("DescribedDelegationToken", "0+")
    throttle_time_ms: int = int32("0+")
