"""What a test can do with Python code and not with machine code, and the skip that says so.

Rules of this file: it looks at nothing while the package is pure. A compiled class calls its own parts directly, cannot
be subclassed by Python code, and takes no stand-in where an object of another compiled class is expected. A test that
needs one of these proves something about the sources, which are the same; it is skipped with that reason, and whatever
else fails is a failure.
"""

import re
import sys
from pkgutil import resolve_name
from types import BuiltinFunctionType

import pytest

from pipeline_broker._stages_check import is_compiled

IS_COMPILED = is_compiled()
_ONLY_PURE = re.compile(
    r"interpreted classes cannot inherit from compiled|object attribute '\w+' is read-only|object expected; got tests\."
)


def skip_if_compiled(owner, name):
    """Skip the test that is about to replace a part of a compiled class, or what a compiled module has of its own kind.

    `owner` is an object or, as pytest's monkeypatch takes it, the text of one.
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
        pytest.skip(f"{name} of {owner.__name__} is compiled: its callers do not look for what replaces it")


def _is_machine_code(owner):
    """Whether a class, or a module, is compiled; an object is not looked at."""
    module = sys.modules.get(owner.__module__) if isinstance(owner, type) else owner
    return not (getattr(module, "__file__", None) or ".py").endswith(".py")


def only_pure(error):
    """Why a test that raised `error` is for pure packages only; None when it has failed."""
    if isinstance(error, BaseExceptionGroup):
        reasons = [only_pure(one) for one in error.exceptions]
        return reasons[0] if all(reasons) else None
    if isinstance(error, pytest.skip.Exception):  # in a group of a nursery
        return str(error)
    if not IS_COMPILED or not isinstance(error, (TypeError, AttributeError)):
        return None
    return str(error) if _ONLY_PURE.search(str(error)) and _is_raised_by_a_test(error) else None


def _is_raised_by_a_test(error):
    """Whether the last frame of Python code is one of the tests', or of what they patch with."""
    paths = []
    traceback = error.__traceback__
    while traceback is not None:
        paths.append(traceback.tb_frame.f_code.co_filename)
        traceback = traceback.tb_next
    interpreted = [path for path in paths if path.endswith(".py") and path.startswith("/")]
    return bool(interpreted) and ("/tests/" in interpreted[-1] or interpreted[-1].endswith("_pytest/monkeypatch.py"))
