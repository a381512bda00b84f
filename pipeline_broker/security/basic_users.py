"""The users of the HTTP ports, who authenticate by HTTP's `Basic` scheme (RFC 7617), and their roles.

A file has a line NAME:PASSWORD for each user. A line `[admin]` or `[read-only]` gives its role to the users below it;
users above the first such line are admins. Empty lines and lines that begin with # are ignored.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import hmac
from pathlib import Path
from typing import NamedTuple

from pipeline_broker.base.owner_only import exposure
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.files.bounded_file import current_stamp, read_bounded

__all__ = ["BasicUsers", "HttpUser"]

FILE_BYTES_MAX = 64 << 10
"""Size of a file with the users of HTTP ports."""
USERS_MAX = 100
"""Users of HTTP ports. Each request is compared with all of them."""
ROLES = {b"[admin]": False, b"[read-only]": True}
"""True for the role whose users are read-only."""


class HttpUser(NamedTuple):
    """An authenticated user. The broker refuses all changes of a read-only user."""

    name: str
    is_read_only: bool = False

    @property
    def refusal(self) -> str | None:
        """The reason to refuse every change; None for an admin."""
        return f"the user {self.name} is read-only, so it cannot change anything" if self.is_read_only else None


class BasicUsers:
    """The users in a file. As for `tls.TlsContexts`, a reload may run in a thread.

    Attributes:
        authorization: the header of the first user, for requests between processes of this machine.

    Raises:
        ConfigError: the file cannot be used.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.reload()

    def reload(self) -> None:
        """Read the file again.

        Raises:
            ConfigError: the file cannot be used. The previous users stay.
        """
        self._stamp = current_stamp(str(self._path))
        users, self._exposure = _read(self._path)
        self._by_digest = [(hashlib.sha256(credentials).digest(), user) for credentials, user in users]
        self.authorization = f"Basic {base64.b64encode(users[0][0]).decode()}"

    def reload_changed(self) -> bool:
        if self._stamp == current_stamp(str(self._path)):
            return False
        self.reload()
        return True

    def warning(self, now: dt.datetime) -> str | None:  # noqa: ARG002 - like certificates
        return self._exposure

    def find(self, authorization: str) -> HttpUser | None:
        """Return the user whose name and password a header `Authorization` has; None for any other header."""
        credentials = _credentials(authorization)
        if credentials is None:
            return None
        shown = hashlib.sha256(credentials).digest()
        # All users are compared, and digests of one length: the time shows neither a name nor a part of a password.
        found = [user for known, user in self._by_digest if hmac.compare_digest(shown, known)]
        return found[0] if found else None

    @staticmethod
    def claimed_name(authorization: str) -> str:
        # Of a known user or not.
        name, colon, _ = (_credentials(authorization) or b"").partition(b":")
        return name.decode(errors="replace") if colon else ""  # without a colon, it may be a password


def _credentials(authorization: str) -> bytes | None:
    scheme, _, credentials = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(credentials, validate=True)
    except (binascii.Error, ValueError):
        return None


def _read(path: Path) -> tuple[list[tuple[bytes, HttpUser]], str | None]:
    name = f"--http-users: {path}"
    try:
        content, status = read_bounded(path, FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}") from None
    found, roles, is_read_only = [], dict[bytes, bool](), False
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip() or line.startswith(b"#"):
            continue
        if line.startswith(b"["):
            if line.strip() not in ROLES:
                raise ConfigError(f"{name}: line {number} is not a role. Write [admin] or [read-only]")
            is_read_only = ROLES[line.strip()]
            continue
        user, _, password = line.partition(b":")
        if not user or not password:
            raise ConfigError(f"{name}: line {number} is not of the form NAME:PASSWORD")
        if roles.setdefault(user, is_read_only) is not is_read_only:
            raise ConfigError(f"{name}: line {number} gives a user a second role")
        found.append((line, HttpUser(_text(user, f"{name}: line {number}"), is_read_only)))
    if not 0 < len(found) <= USERS_MAX:
        raise ConfigError(f"{name}: the file has {len(found)} users. Write 1 to {USERS_MAX} lines NAME:PASSWORD")
    return found, exposure(path, status)


def _text(user: bytes, place: str) -> str:
    # The name is that of a principal. Two names must not become one by replaced characters.
    try:
        return user.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{place} has a name that is not UTF-8") from None
