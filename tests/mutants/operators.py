"""What a mutation changes: one operator, constant, condition or statement of one function's body.

Rules: only what a function does when it is called is changed, never decorators, defaults and annotations; nor what no
test should look at: assertions, that of `zip` included, logging, texts of exceptions, arguments that are deleted for
the linter, the order of fields in JSON. A mutation says in source what it changes into what, and of equal ones in a
function the how-manieth it is, so that its name outlives a change of lines.
"""

import ast
import copy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs

COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
UNTOUCHED = (ast.Assert, ast.JoinedStr, ast.Raise, *FUNCTIONS, ast.ClassDef, ast.Import, ast.ImportFrom)
SHOWN_MAX = 100


@attrs.frozen
class Mutation:
    """One change.

    Attributes:
        path: of the source.
        function: its qualified name, as code objects have it.
        first_line: of the function, its decorators included; with the name it tells properties and setters apart.
        line: of the statement that the change is in.
        change: before and after, in source.
        number: of the equal ones in the function.
    """

    path: str
    function: str
    first_line: int
    line: int
    change: str
    number: int = 0

    @property
    def name(self) -> str:
        again = f" #{self.number + 1}" if self.number else ""
        return f"{self.path} {self.function}: {self.change}{again}"


@attrs.frozen
class Place:
    """Where in a tree something stands: a field of a node, or one element of that."""

    node: ast.AST
    field: str
    index: int | None

    def get(self) -> ast.AST:
        value = getattr(self.node, self.field)
        return value if self.index is None else value[self.index]

    def put(self, value: ast.AST) -> None:
        if self.index is None:
            setattr(self.node, self.field, value)
        else:
            getattr(self.node, self.field)[self.index] = value


class Source:
    """A source file, its functions, and what may be changed in them."""

    def __init__(self, root: Path, path: str) -> None:
        self.path = path
        self.file = str(root / path)
        self.tree = ast.parse((root / path).read_text(encoding="utf-8"), self.file)
        self._places: dict[Mutation, tuple[Place, ast.AST]] = {}
        for name, function in functions_of(self.tree):
            self._find(name, function)

    @property
    def mutations(self) -> list[Mutation]:
        return list(self._places)

    def _find(self, name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        first_line = min([function.lineno, *(it.lineno for it in function.decorator_list)])
        numbers: Counter[str] = Counter()
        body = function.body[1:] if ast.get_docstring(function) is not None else function.body
        start = len(function.body) - len(body)
        for index in range(start, len(function.body)):
            for place, changed, change, line in changes(Place(function, "body", index)):
                mutation = Mutation(self.path, name, first_line, line, change, numbers[change])
                numbers[change] += 1
                self._places[mutation] = place, changed

    def compile_mutated(self, mutation: Mutation):
        """The code of the module with the change."""
        place, changed = self._places[mutation]
        original = place.get()
        place.put(ast.fix_missing_locations(ast.copy_location(copy.deepcopy(changed), original)))
        try:
            return compile(self.tree, self.file, "exec", dont_inherit=True)
        finally:
            place.put(original)


def functions_of(tree: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """The functions and methods of a module with their qualified names; those inside functions belong to these."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, FUNCTIONS):
            yield f"{prefix}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from functions_of(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from functions_of(node, prefix)


def shown(node: ast.AST) -> str:
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


def is_logging(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "logger"
    )


def changes(place: Place, line: int = 0) -> Iterator[tuple[Place, ast.AST, str, int]]:
    """The changes of what stands there and of all within, in words, with the lines of their statements."""
    node = place.get()
    if isinstance(node, FUNCTIONS):  # one inside a function: its body is part of what that does
        for index in range(len(node.body)):
            yield from changes(Place(node, "body", index))
        return
    if isinstance(node, ast.keyword) and node.arg in ("sort_keys", "strict"):
        return
    if isinstance(node, UNTOUCHED) or is_logging(node) or (isinstance(node, ast.Expr) and is_logging(node.value)):
        return
    if isinstance(node, ast.stmt):
        line = node.lineno
    for changed in replacements(node):
        yield place, changed, f"{shown(node)} -> {shown(changed)}", line
    if isinstance(node, ast.BoolOp):
        for left_out, changed in shortened(node):
            yield place, changed, f"without {shown(left_out)} in {shown(node)}", line
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "ctx", "op", "ops", "format_spec"):
            continue
        if isinstance(value, ast.AST):
            yield from changes(Place(node, field, None), line)
        elif isinstance(value, list):
            for index, element in enumerate(value):
                if isinstance(element, ast.AST):
                    yield from changes(Place(node, field, index), line)


def replacements(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of one node."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            if (other := COMPARISONS.get(type(op))) is not None:
                yield ast.Compare(left, [other()], [right])
        case ast.Compare(left=left, ops=[first, second], comparators=comparators):
            yield ast.Compare(left, [COMPARISONS[type(first)](), second], comparators)
            yield ast.Compare(left, [first, COMPARISONS[type(second)]()], comparators)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield operand
        case ast.BinOp(left=left, op=op, right=right):
            if (other := ARITHMETIC.get(type(op))) is not None and not is_text(left) and not is_text(right):
                yield ast.BinOp(left, other(), right)
        case ast.AugAssign(target=target, op=op, value=value):
            if (other := ARITHMETIC.get(type(op))) is not None:
                yield ast.AugAssign(target, other(), value)
            yield ast.Pass()
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield ast.Constant(value + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.If(test=ast.Name() | ast.Attribute() | ast.Call() as test, body=body, orelse=orelse):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())):
            yield ast.Pass()
        case ast.Delete(targets=[ast.Name(), *_]):
            pass
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]) | ast.Delete():
            yield ast.Pass()
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()
        case ast.Return(value=ast.Constant()):
            pass  # its constant is changed
        case ast.Return(value=value) if value is not None:
            yield ast.Return(ast.Constant(None))


def shortened(node: ast.BoolOp) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Each operand, and what is left without it."""
    for index, operand in enumerate(node.values):
        left = node.values[:index] + node.values[index + 1 :]
        yield operand, left[0] if len(left) == 1 else ast.BoolOp(node.op, left)


def is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
