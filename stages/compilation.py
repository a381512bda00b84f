"""What modules say to the compiler that may compile them; see hatch_build.py.

Rules of this file: it is not compiled itself, and at work nothing needs the package that mypyc reads these names from.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:
    T = TypeVar("T")

    def mypyc_attr(**_: Any) -> Callable[[T], T]:
        """Change nothing where nothing is compiled."""
        return lambda compiled: compiled


__all__ = ["mypyc_attr"]
