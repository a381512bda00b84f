"""Skips for tests that need Python code, when the package is compiled.

A compiled class calls its own methods directly, cannot be subclassed by Python code, and accepts no stand-in for an
object of another compiled class. A test that needs one of these checks the sources, which are the same in a pure
package, and is skipped. All other failures count.
"""

import re
import sys
from pkgutil import resolve_name
from types import BuiltinFunctionType

import pytest

from pipeline_broker._package_check import is_compiled

IS_COMPILED = is_compiled()
_ONLY_PURE = re.compile(
    r"interpreted classes cannot inherit from compiled|object attribute '\w+' is read-only|object expected; got tests\."
)


def skip_if_compiled(owner, name):
    """Skip a test that replaces an attribute of a compiled class or module.

    `owner` is an object or, like for pytest's monkeypatch, a dotted name.
    """
    if not IS_COMPILED:
        return
    owner = resolve_name(owner) if isinstance(owner, str) else owner
    if not _is_machine_code(owner):
        return
    part = getattr(owner, name, None)
    if (
        isinstance(owner, type)
        or type(part) is BuiltinFunctionType
        or (isinstance(part, type) and _is_machine_code(part))
    ):
        pytest.skip(f"{name} of {owner.__name__} is compiled: its callers ignore a replacement")


def _is_machine_code(owner):
    """Return whether a class or module is compiled."""
    module = sys.modules.get(owner.__module__) if isinstance(owner, type) else owner
    return not (getattr(module, "__file__", None) or ".py").endswith(".py")


def only_pure(error):
    """Return why a test that raised `error` needs pure packages, or None if it failed."""
    if isinstance(error, BaseExceptionGroup):
        reasons = [only_pure(one) for one in error.exceptions]
        return reasons[0] if all(reasons) else None
    if isinstance(error, pytest.skip.Exception):  # in a group of a nursery
        return str(error)
    if not IS_COMPILED or not isinstance(error, (TypeError, AttributeError)):
        return None
    return str(error) if _ONLY_PURE.search(str(error)) and _is_raised_by_a_test(error) else None


def _is_raised_by_a_test(error):
    """Return whether the last Python frame belongs to a test, or to its stand-ins."""
    paths = []
    traceback = error.__traceback__
    while traceback is not None:
        paths.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    interpreted = [path for path in paths if path.endswith(".py") and path.startswith("/")]
    return bool(interpreted) and ("/tests/" in interpreted[-1] or interpreted[-1].endswith("_pytest/monkeypatch.py"))
