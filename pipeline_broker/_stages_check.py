"""Makes sure that `stages` is the package that came with this one, and knows which build the two are.

Rules: `stages` is a generic name and a folder of that name may stand before ours on the import path; every module that
imports it from outside calls `ensure_stages` first. Looks only, imports nothing.
"""

import importlib.util
import sys
from importlib.machinery import SOURCE_SUFFIXES
from pathlib import Path

OURS = Path(__file__).resolve().parent.parent / "stages"


class ShadowedStagesError(ImportError):
    """Another package named stages is found first; its text is one line that names it."""


def ensure_stages() -> None:
    """Raise ShadowedStagesError where `import stages` finds, or has found, another package than ours."""
    if (loaded := sys.modules.get("stages")) is not None:
        found = getattr(loaded, "__file__", None)
    else:
        specification = importlib.util.find_spec("stages")
        found = None if specification is None else specification.origin
    if found is None:
        raise ShadowedStagesError(f"no package stages in {OURS.parent}: pipeline-broker is not completely installed")
    if Path(found).resolve().parent != OURS:
        raise ShadowedStagesError(
            f"{found} is another package named stages and shadows the one of pipeline-broker in {OURS}; "
            "start from another folder, or with the command pipeline-broker"
        )


def is_compiled() -> bool:
    """Whether the modules of the request path, which are compiled together or not at all, run as machine code."""
    specification = importlib.util.find_spec("stages.request")
    return specification is not None and not str(specification.origin).endswith(tuple(SOURCE_SUFFIXES))


def commit() -> str:
    """The commit that the wheel was made from; empty in a tree of sources, which may be at any."""
    path = Path(__file__).with_name("_commit.txt")  # written by hatch_build.py
    return path.read_text(encoding="ascii").strip() if path.exists() else ""
