"""Generates the table of rights in docs/guides/access-control.md from the requests that prove it."""

from pipeline_broker.apis.registry import SERVED
from tests.apis.authorized_requests import CASES
from tests.apis.authorized_transactions import TRANSACTION_CASES

HEAD = "| rights | error without them | APIs |\n|---|---|---|\n"


def table():
    """Return a row for each combination of rights and error, sorted by error and rights, with all APIs it holds for."""
    apis = {}
    for parameters in TRANSACTION_CASES + CASES:
        _, code, rules, message = parameters.values
        rights = " and ".join(
            f"{pascal(rule.operation.name)} on {rule.resource_type.name.lower().replace('_', ' ')}" for rule in rules
        )
        apis.setdefault((code, rights), set()).add(SERVED[message.SCHEMA.key].name)
    rows = sorted((code.value, rights, code.name, sorted(names)) for (code, rights), names in apis.items())
    return HEAD + "\n".join(f"| {rights} | {code} {name} | {', '.join(names)} |" for code, rights, name, names in rows)


def pascal(name):
    return name.title().replace("_", "")
