"""Files that do not count, named in a bounded number of lines.

Rules of this file: a directory may have a hundred thousand files of a stranger, and each that is named costs a call of
the system and a line.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from pipeline_broker.inspect.findings import Finding, Leftover

__all__ = ["some_of"]

NAMED_MAX = 100


def some_of(names: Sequence[str], place: str, findings: Callable[[str], Iterable[Finding]]) -> Iterator[Finding]:
    """The findings about the first names, and the number of the others."""
    for name in names[:NAMED_MAX]:
        yield from findings(name)
    if len(names) > NAMED_MAX:
        yield Leftover(place, 0, 0, f"{len(names) - NAMED_MAX:,} more files that do not count")
