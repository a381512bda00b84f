"""A check that `import stages` and `import spark_analysis` find our packages, and the build of the packages.

The names are generic, because neither package is only about this broker. So another package or folder may come first on
the import path. Every module that imports `stages` from outside calls `ensure_package` first. This module imports
neither package.
"""

import importlib.util
import sys
from importlib.machinery import SOURCE_SUFFIXES
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent


class ShadowedPackageError(ImportError):
    """An import finds another package than ours, or none. The message is one line."""


def ensure_package(name: str) -> None:
    """Check one of our packages, without importing it.

    Raises:
        ShadowedPackageError: `import` finds another package of the name, or none.
    """
    if (loaded := sys.modules.get(name)) is not None:
        found = getattr(loaded, "__file__", None)
    else:
        specification = importlib.util.find_spec(name)
        # A folder without __init__.py has no origin, but it is found only if no package has the name.
        found = None if specification is None else specification.origin
    if found is None:
        raise ShadowedPackageError(
            f"the package {name} is missing in {FOLDER}: pipeline-broker is not completely installed."
            " Install pipeline-broker again"
        )
    if Path(found).resolve().parent != FOLDER / name:
        raise ShadowedPackageError(
            f"{found} is another package named {name} and shadows the one of pipeline-broker in {FOLDER / name}; "
            "start from another folder, or with the command pipeline-broker"
        )


def is_compiled() -> bool:
    """Return whether the request path runs as machine code. Its modules are compiled all together or not at all."""
    specification = importlib.util.find_spec("stages.request")
    return specification is not None and not str(specification.origin).endswith(tuple(SOURCE_SUFFIXES))


def commit() -> str:
    """Return the commit from which the wheel was built, or "" in a source tree."""
    path = Path(__file__).with_name("_commit.txt")  # written by hatch_build.py
    return path.read_text(encoding="ascii").strip() if path.exists() else ""
