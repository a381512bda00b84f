"""A command whose help is its function's docstring."""

import inspect
from itertools import pairwise
from typing import Any

import click

__all__ = ["DocumentedCommand"]

_KEEP_LINES = "\b"


class DocumentedCommand(click.Command):
    """A command that does not rewrap the lists of its help: a line that ends in a colon, and indented lines."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        if self.help is not None:
            self.help = "\n".join(_with_marks(inspect.cleandoc(self.help).splitlines()))


def _with_marks(lines: list[str]) -> list[str]:
    marked = []
    for line, following in pairwise([*lines, ""]):
        if line.endswith(":") and following.startswith("  ") and not line.startswith(" "):
            marked.append(_KEEP_LINES)
        marked.append(line)
    return marked
