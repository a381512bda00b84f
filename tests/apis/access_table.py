"""Generates the table of rights in docs/guides/access-control.md from the requests that prove it."""

from pipeline_broker.apis.registry import SERVED
from tests.apis.authorized_requests import CASES
from tests.apis.authorized_transactions import TRANSACTION_CASES

HEAD = "| API | version tried | rights | refusal |\n|---|---|---|---|\n"


def table():
    rows = []
    for parameters in TRANSACTION_CASES + CASES:
        version, code, rules, message = parameters.values
        key = message.SCHEMA.key
        rights = " and ".join(f"{words(rule.operation.name)} on the {words(rule.resource_type.name)}" for rule in rules)
        rows.append((key, f"| {SERVED[key].name} | {version} | {rights} | {code.value} {code.name} |"))
    return HEAD + "\n".join(row for _, row in sorted(rows))


def words(name):
    return name.lower().replace("_", " ")
