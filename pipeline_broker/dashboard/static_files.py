"""The files that the pages are made of: data of this package and of `pipeline_charts`, in a list with checksums.

Rules of this file: a name that is not in the list is no file, whatever lies in the folder, so no path of a client ever
reaches the file system. Files are small and read once.
"""

from __future__ import annotations

import functools
import hashlib
import json
from importlib import resources
from typing import Any

from pipeline_charts import FILES, read_chart_file

__all__ = ["CONTENT_TYPES", "checksums", "content_type_of", "read"]

FOLDER = "static"
CHECKSUMS = "checksums.json"
PAGE = "page.html"

CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}


def _folder() -> Any:
    return resources.files("pipeline_broker.dashboard") / FOLDER


@functools.cache
def checksums() -> dict[str, str]:
    """SHA-256 of each file that is served, by its name."""
    found: dict[str, str] = json.loads((_folder() / CHECKSUMS).read_text(encoding="utf-8"))
    return found


@functools.cache
def read(name: str) -> bytes | None:
    """The content of a file; None where the list does not name it, or it is not the one that the list means."""
    wanted = checksums().get(name)
    if wanted is None:
        return None
    content: bytes = read_chart_file(name) if name in FILES else (_folder() / name).read_bytes()
    return content if hashlib.sha256(content).hexdigest() == wanted else None


def content_type_of(name: str) -> str:
    """By the ending of the name."""
    return CONTENT_TYPES[name.rpartition(".")[2]]
