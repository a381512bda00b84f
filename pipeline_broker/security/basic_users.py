"""The users of the HTTP ports, who authenticate by HTTP's `Basic` scheme (RFC 7617).

A file has a line NAME:PASSWORD for each user. Empty lines and lines that begin with # are ignored.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import hashlib
import hmac
from pathlib import Path

from pipeline_broker.base.owner_only import OTHERS
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.files.bounded_file import current_stamp, read_bounded

__all__ = ["BasicUsers"]

FILE_BYTES_MAX = 64 << 10
"""Size of a file with the users of HTTP ports."""
USERS_MAX = 100
"""Users of HTTP ports. Each request is compared with all of them."""


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
        users, self._is_open_to_others = _read(self._path)
        self._digests = [hashlib.sha256(user).digest() for user in users]
        self.authorization = f"Basic {base64.b64encode(users[0]).decode()}"

    def reload_changed(self) -> bool:
        if self._stamp == current_stamp(str(self._path)):
            return False
        self.reload()
        return True

    def warning(self, now: dt.datetime) -> str | None:  # noqa: ARG002 - like certificates
        return f"other users may read {self._path}. Run chmod 600 on it" if self._is_open_to_others else None

    def is_allowed(self, authorization: str) -> bool:
        """Return whether a header `Authorization` has the name and password of a user."""
        scheme, _, credentials = authorization.partition(" ")
        if scheme.lower() != "basic":
            return False
        try:
            shown = hashlib.sha256(base64.b64decode(credentials, validate=True)).digest()
        except (binascii.Error, ValueError):
            return False
        # All users are compared, and digests of one length: the time shows neither a name nor a part of a password.
        return sum(hmac.compare_digest(shown, known) for known in self._digests) > 0


def _read(path: Path) -> tuple[list[bytes], bool]:
    name = f"--http-users: {path}"
    try:
        content, status = read_bounded(path, FILE_BYTES_MAX)
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}") from None
    lines = content.splitlines()
    found = [line for line in lines if line.strip() and not line.startswith(b"#")]
    for line in found:
        user, _, password = line.partition(b":")
        if not user or not password:
            raise ConfigError(f"{name}: line {lines.index(line) + 1} is not of the form NAME:PASSWORD")
    if not 0 < len(found) <= USERS_MAX:
        raise ConfigError(f"{name}: the file has {len(found)} users. Write 1 to {USERS_MAX} lines NAME:PASSWORD")
    return found, bool(status.st_mode & OTHERS)
