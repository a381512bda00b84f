"""Puts other code into functions that are imported already, wherever they are referred to.

Rules: a function stays the same object and gets another `__code__`, so that tables of handlers, bound methods and
subclasses have the change, too. It is looked up by its file, its qualified name and its first line.
"""

import ast
import builtins
import copy
import gc
import types
from collections import defaultdict
from collections.abc import Collection, Iterable

HITS = "_mutants_hits"
"""The set, among the builtins, of what was run."""

Key = tuple[str, str, int]


def key_of(code: types.CodeType) -> Key:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def live_functions(files: Iterable[str]) -> dict[Key, list[types.FunctionType]]:
    """All functions of the files."""
    wanted = set(files)
    gc.unfreeze()  # what is frozen is not listed
    found = defaultdict(list)
    for each in gc.get_objects():
        if type(each) is types.FunctionType and each.__code__.co_filename in wanted:
            found[key_of(each.__code__)].append(each)
    gc.freeze()
    return found


def codes_of(module: types.CodeType) -> dict[Key, types.CodeType]:
    """The code of all functions of a module, but for those inside functions, which come with these."""
    found = {}
    for each in module.co_consts:
        if isinstance(each, types.CodeType):
            if each.co_flags & 0x2:  # CO_NEWLOCALS: of a function, not of a class
                found[key_of(each)] = each
            else:
                found.update(codes_of(each))
    return found


class _Noting(ast.NodeTransformer):
    """Has the statements of functions that begin in some lines note that they are run."""

    def __init__(self, path: str, lines: Collection[int]) -> None:
        self._path = path
        self._lines = lines
        self._depth = 0

    def _function(self, node):
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = _function  # noqa: N815 - names that ast gives

    def generic_visit(self, node):
        super().generic_visit(node)
        if self._depth:
            for field in ("body", "orelse", "finalbody"):
                statements = getattr(node, field, None)
                if isinstance(statements, list) and statements and isinstance(statements[0], ast.stmt):
                    setattr(node, field, [it for each in statements for it in (*self._note(each), each)])
        return node

    def _note(self, statement):
        if statement.lineno not in self._lines:
            return
        call = ast.parse(f"{HITS}.add(({self._path!r}, {statement.lineno}))").body[0]
        for node in ast.walk(call):
            ast.copy_location(node, statement)
        yield call


def noting_codes(lines_of) -> dict[Key, types.CodeType]:
    """The code of all functions of the sources, noting which of the lines that are given for each are run."""
    found: dict[Key, types.CodeType] = {}
    for source, lines in lines_of.items():
        tree = _Noting(source.path, lines).visit(copy.deepcopy(source.tree))
        found.update(codes_of(compile(ast.fix_missing_locations(tree), source.file, "exec", dont_inherit=True)))
    return found


def note_lines(codes, functions) -> set[tuple[str, int]]:
    """Have functions note which lines are run, by code that does so; the set that they note it in."""
    hits: set[tuple[str, int]] = set()
    setattr(builtins, HITS, hits)
    swap(codes, functions)
    return hits


def swap(codes, functions) -> int:
    """Give functions other code; to how many."""
    count = 0
    for key, code in codes.items():
        for function in functions.get(key, ()):
            if function.__code__.co_freevars == code.co_freevars:
                function.__code__ = code
                count += 1
    return count
