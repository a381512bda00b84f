"""The audit log: one line for each change over HTTP."""

from __future__ import annotations

import json
import logging
from typing import Any

from pipeline_broker.web.messages import HttpRequest

__all__ = ["AUDIT_LOGGER", "log_change"]

AUDIT_LOGGER = "pipeline_broker.audit"
"""Name of the logger of changes over HTTP."""
DETAILS_CHARACTERS_MAX = 500

logger = logging.getLogger(AUDIT_LOGGER)
# Operators read these lines without a change of levels. A client can set another level.
logger.setLevel(logging.INFO)


def log_change(request: HttpRequest, principal: str, what: str, details: Any, refusal: str | None) -> None:
    """Log a change.

    Args:
        principal: the principal that requested it; empty without users.
        details: names of the changed things, without secrets.
        refusal: the reason for which it was refused; None if it was carried out.
    """
    # JSON in ASCII: a name cannot begin another line.
    text = json.dumps(details)[:DETAILS_CHARACTERS_MAX]
    end = "done" if refusal is None else f"refused: {json.dumps(refusal)[1:-1][:DETAILS_CHARACTERS_MAX]}"
    logger.info("%s %s by %s from %s: %s", what, text, json.dumps(principal)[1:-1] or "anyone", request.peer, end)
