"""CRC-32C (Castagnoli), the checksum of record batches, journal and slots."""

from collections.abc import Callable, Iterable
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

__all__ = ["crc32c", "crc32c_of"]

PACKAGE, EXTENSION = "crc32c", "crc32c._crc32c"


def _extension() -> Any:
    # Import only the C module of the package. The rest, a command line and a version from metadata, needs argparse,
    # email and zipfile: a twentieth of all imports at the broker's startup. If the package is built in another way,
    # import all of it.
    package = find_spec(PACKAGE)
    locations = None if package is None else package.submodule_search_locations
    specification = None if locations is None else PathFinder.find_spec(EXTENSION, locations)
    if specification is None or specification.loader is None:
        import crc32c as whole  # noqa: PLC0415 - see above

        return whole
    module = module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


#: crc32c(data, value=0): the checksum of `data`, continued from `value`. The C function itself, because a wrapper would
#: cost more than the 0.1 us that it takes for a small buffer.
crc32c: Callable[..., int] = _extension().crc32c


def crc32c_of(pieces: Iterable[bytes | bytearray | memoryview]) -> int:
    """Return the checksum of consecutive pieces, without joining them."""
    crc = 0
    for piece in pieces:
        crc = crc32c(piece, crc)
    return crc
