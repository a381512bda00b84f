"""Decorators for mypyc, usable without `mypy_extensions` at run time; see hatch_build.py."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:
    T = TypeVar("T")

    def mypyc_attr(**_: Any) -> Callable[[T], T]:
        """Return a decorator that changes nothing, since the class is not compiled."""
        return lambda compiled: compiled


__all__ = ["mypyc_attr"]
