"""The declaration of an option of the source or the sink, for the documents."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Option"]


class Option(NamedTuple):
    """An option's default, if it has one, and its meaning in Markdown."""

    default: str
    meaning: str
