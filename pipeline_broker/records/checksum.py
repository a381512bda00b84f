"""CRC-32C (Castagnoli), the checksum of record batches and of the journal.

Rules of this file: one name, any buffer, no copy, no wrapper call around 0.1 us of work.
"""

from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

__all__ = ["crc32c", "crc32c_of"]

PACKAGE, EXTENSION = "crc32c", "crc32c._crc32c"


def _extension() -> Any:
    """The C module of the package `crc32c`, without the rest of it.

    The rest is a command line and a version read from metadata: with argparse, email and zipfile it would be a
    twentieth of all that a start of the broker imports. A package that is built otherwise is imported as it is.
    """
    package = find_spec(PACKAGE)
    places = None if package is None else package.submodule_search_locations
    specification = None if places is None else PathFinder.find_spec(EXTENSION, places)
    if specification is None or specification.loader is None:
        import crc32c as whole  # noqa: PLC0415 - see above

        return whole
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


#: crc32c(data, value=0): the checksum of `data`, continuing from `value`.
crc32c: Callable[..., int] = _extension().crc32c


def crc32c_of(pieces: Iterable[bytes | bytearray | memoryview]) -> int:
    """The checksum of pieces that follow each other, of which one is in memory at a time."""
    crc = 0
    for piece in pieces:
        crc = crc32c(piece, crc)
    return crc
