"""A test that holds for every row of a table: one test runs all rows, and names each that fails.

Rules: a row that fails does not end the others; a row never skips, it is left out of the table. The fixtures of the
test are those of all its rows, so what a row leaves behind is the next one's. EACH_ROW=1 makes every row a test of its
own, which is how one that failed is run alone: `EACH_ROW=1 .venv/bin/python -m pytest 'FILE::TEST[ROW]'`.
"""

import inspect
import os

import pytest

FAILURES = (Exception, pytest.fail.Exception, pytest.skip.Exception)
SHOWN_MAX = 10
"""Failures that are shown in full; the others are named."""


def each_row(names, rows, ids=None, *, parts=1):
    """Have a test run with each of the rows, as `pytest.mark.parametrize` would, but in one test.

    `names` are the arguments that a row gives, with commas between; `ids` are the names of the rows, which those made
    by `pytest.param` bring along. A table that takes more than a few seconds is divided over as many tests as `parts`
    says, by turns: each has rows of all kinds.
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
    """A test that takes the fixtures of a function and calls it with each row."""
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
    """Have Hypothesis draw other examples for each row, also where it does without chance, as its plugin has it."""
    if getattr(function, "is_hypothesis_test", False):
        function.hypothesis.inner_test._hypothesis_internal_add_digest = row.encode()
