"""TLS and users of the HTTP ports of a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from pipeline_broker.security.basic_users import BasicUsers
    from pipeline_broker.security.tls import TlsContexts

__all__ = ["NO_SECURITY", "HttpSecurity"]


@attrs.frozen
class HttpSecurity:
    """The certificate and the users of HTTP ports.

    Attributes:
        tls: TLS contexts; None for HTTP without TLS.
        users: users who may send requests; None if everyone may.
    """

    tls: TlsContexts | None = None
    users: BasicUsers | None = None

    @property
    def scheme(self) -> str:
        return "http" if self.tls is None else "https"

    @property
    def files(self) -> dict[str, TlsContexts | BasicUsers]:
        found = {"certificate of the HTTP ports": self.tls, "users of the HTTP ports": self.users}
        return {name: part for name, part in found.items() if part is not None}


NO_SECURITY: Final = HttpSecurity()
