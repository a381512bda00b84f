"""A limit on the reported leftovers of a folder: another program may have put 100,000 files there."""

from collections.abc import Callable, Iterable, Iterator, Sequence

from pipeline_broker.inspect.findings import Finding, Leftover

__all__ = ["some_of"]

NAMED_MAX = 100
"""Unknown files of a folder that `inspect` lists; others are counted."""


def some_of(names: Sequence[str], place: str, findings: Callable[[str], Iterable[Finding]]) -> Iterator[Finding]:
    """Yield the findings of the first `NAMED_MAX` names, and one with the number of the others.

    Args:
        place: file name of the last finding.
        findings: returns the findings of one name, which may take a system call.
    """
    for name in names[:NAMED_MAX]:
        yield from findings(name)
    if len(names) > NAMED_MAX:
        yield Leftover(place, 0, 0, f"{len(names) - NAMED_MAX:,} more files, which are ignored")
