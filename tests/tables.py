"""A test over the rows of a table: one test runs all rows, and names each that fails.

A failing row does not stop the others. A row never skips; leave it out of the table. All rows share the fixtures of the
test. EACH_ROW=1 makes every row a test of its own, to run one alone: `EACH_ROW=1 .venv/bin/python -m pytest
'FILE::TEST[ROW]'`.
"""

import inspect
import os

import pytest

FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)
SHOWN_MAX = 10
"""Failures that are shown in full; the others are named."""


def each_row(names, rows, ids=None, *, parts=1):
    """Run a test with each of the rows, like `pytest.mark.parametrize`, but as one test.

    `names` are the arguments of a row, separated by commas; `ids` are the names of the rows, unless made by
    `pytest.param`. `parts` divides a slow table into several tests, which take rows in turn.
    """
    arguments = [name.strip() for name in names.split(",")]
    if ids is None:
        table = {row.id: row.values for row in rows}
    else:
        table = {str(name): row if len(arguments) > 1 else (row,) for name, row in zip(ids, rows, strict=True)}
    assert len(table) == len(rows), "every row has a name of its own"

    def decorate(function):
        if os.environ.get("EACH_ROW") == "1":
            parameters = [pytest.param(*row, id=name) for name, row in table.items()]
            return pytest.mark.parametrize(arguments, parameters)(function)
        return table_test(function, arguments, table, parts)

    return decorate


def table_test(function, arguments, table, parts):
    """Return a test with the fixtures of a function, which calls it with each row."""
    assert not inspect.iscoroutinefunction(function), "a table has no event loop of its own"

    def run(*of_class, part=0, **fixtures):
        rows = list(table.items())[part::parts]
        failures = {}
        for name, row in rows:
            tell_apart(function, name)
            try:
                function(*of_class, **fixtures, **dict(zip(arguments, row, strict=True)))
            except FAILURES as failure:
                failure.add_note(f"row {name}")
                failures[name] = failure
        if failures:
            raise BaseExceptionGroup(
                f"{len(failures)} of {len(rows)} rows failed: {', '.join(failures)}; "
                f"EACH_ROW=1 makes each of them a test: {function.__name__}[{next(iter(failures))}]",
                list(failures.values())[:SHOWN_MAX],
            )

    for name in ("__name__", "__qualname__", "__module__", "__doc__"):
        setattr(run, name, getattr(function, name))
    run.pytestmark = list(getattr(function, "pytestmark", ()))
    run.rows = list(table)
    parameters = [it for name, it in inspect.signature(function).parameters.items() if name not in arguments]
    if parts > 1:
        parameters.append(inspect.Parameter("part", inspect.Parameter.KEYWORD_ONLY))
        labels = [f"{part + 1} of {parts}" for part in range(parts)]
        run.pytestmark.append(pytest.mark.parametrize("part", range(parts), ids=labels).mark)
    run.__signature__ = inspect.Signature(parameters)
    return run


def tell_apart(function, row):
    """Make Hypothesis draw different examples for each row, also when derandomized."""
    if getattr(function, "is_hypothesis_test", False):
        function.hypothesis.inner_test._hypothesis_internal_add_digest = row.encode()
