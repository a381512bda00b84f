"""The static files of the dashboard's pages, from this package and `pipeline_charts`.

Only names in `checksums.json` are served, so a client's path never reaches the file system.
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
    found: dict[str, str] = json.loads((_folder() / CHECKSUMS).read_text(encoding="utf-8"))
    return found


@functools.cache
def read(name: str) -> bytes | None:
    """Return the content of a file, or None if it is not listed or does not match its checksum."""
    wanted = checksums().get(name)
    if wanted is None:
        return None
    content: bytes = read_chart_file(name) if name in FILES else (_folder() / name).read_bytes()
    return content if hashlib.sha256(content).hexdigest() == wanted else None


def content_type_of(name: str) -> str:
    return CONTENT_TYPES[name.rpartition(".")[2]]
