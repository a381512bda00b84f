"""The token of the control endpoint, in a file that only its owner can read."""

from __future__ import annotations

import os
import re
import secrets
from pathlib import Path

from pipeline_broker.base import owner_only
from pipeline_broker.files.bounded_file import open_regular, read_bounded
from pipeline_broker.node.errors import StartError

__all__ = ["TOKEN_NAME", "token_of"]

TOKEN_NAME = "control.token"  # noqa: S105 - the name of a file
TOKEN_BYTES = 32
FILE_BYTES_MAX = 1024
"""Size of the file with the token of the control endpoint."""
TOKEN = re.compile(r"[!-~]{16,}")
ROOT_USER = 0


def token_of(path: Path) -> str:
    """Return the token in a file. A missing file is created, with a new token and mode 0600.

    Raises:
        StartError: the file cannot be read or created, other users can read or replace it, or it has no token.
    """
    try:
        try:
            descriptor = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            return _read(path)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            token = secrets.token_urlsafe(TOKEN_BYTES)
            file.write(f"{token}\n")
            return token
    except OSError as error:
        raise StartError(
            f"cannot use the token file {path}: {error.strerror or error}. Choose another --control-token"
        ) from None


def _read(path: Path) -> str:
    content, status = read_bounded(path, FILE_BYTES_MAX)
    if status.st_mode & owner_only.OTHERS or status.st_uid not in {ROOT_USER, os.geteuid()}:
        raise StartError(f"other users can read the token file {path}. Delete it, so that the broker creates a new one")
    token = content.decode("latin-1").strip()
    if not TOKEN.fullmatch(token):
        raise StartError(
            f"the token file {path} has no token of 16 or more visible ASCII characters. Delete it, so that the broker"
            " creates a new one"
        )
    return token
