"""A check that `import stages` finds the package that belongs to pipeline-broker, and the build of both packages.

`stages` is a generic name: another package or folder may come first on the import path. So every module that imports it
from outside calls `ensure_stages` first. This module imports neither package.
"""

import importlib.util
import sys
from importlib.machinery import SOURCE_SUFFIXES
from pathlib import Path

OURS = Path(__file__).resolve().parent.parent / "stages"


class ShadowedStagesError(ImportError):
    """`import stages` finds another package, or none. The message is one line."""


def ensure_stages() -> None:
    """Check the package `stages`, without importing it.

    Raises:
        ShadowedStagesError: `import stages` finds another package, or none.
    """
    if (loaded := sys.modules.get("stages")) is not None:
        found = getattr(loaded, "__file__", None)
    else:
        specification = importlib.util.find_spec("stages")
        found = None if specification is None else specification.origin
    if found is None:
        raise ShadowedStagesError(
            f"the package stages is missing in {OURS.parent}: pipeline-broker is not completely installed."
            " Install pipeline-broker again"
        )
    if Path(found).resolve().parent != OURS:
        raise ShadowedStagesError(
            f"{found} is another package named stages and shadows the one of pipeline-broker in {OURS}; "
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
