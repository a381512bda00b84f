"""Texts from outside become numbers in one place, `pipeline_broker/base/numbers.py`.

Python's `int` raises for a text of more than 4,300 digits, and `float` reads `nan` and `1e400`. Every other call of
them, where settings, users and requests are read, is listed here with the reason why it meets no such text.
"""

import ast
from pathlib import Path

ROOMS = ("apis", "config", "quotas", "security")
OF_A_KIND = "a member of an enumeration, or a number already"
CANONICAL = "a value that `Property.parse` has let through"
BY_PATTERN = "digits whose number a pattern bounds"
OF_A_TABLE = "a bound in a table of ours"
KNOWN = {
    "apis/dispatch.py: int(ApiKey.PRODUCE)": OF_A_KIND,
    "apis/security/authentication.py: int(ApiKey.API_VERSIONS)": OF_A_KIND,
    "apis/security/authentication.py: int(ApiKey.SASL_HANDSHAKE)": OF_A_KIND,
    "config/changes.py: int(settings.get(name, topic_properties()[name].default or '0'))": CANONICAL,
    "config/listeners.py: int(match[4])": BY_PATTERN,
    "config/listeners.py: int(text)": CANONICAL,
    "config/properties.py: int(exception)": OF_A_TABLE,
    "config/properties.py: int(high)": OF_A_TABLE,
    "config/properties.py: int(low)": OF_A_TABLE,
    "config/properties.py: int(value)": CANONICAL,
    "config/reconfiguration.py: int(config.texts.get(name, broker_properties()[name].default or '1'))": CANONICAL,
    "config/resources.py: int(of_broker.synonyms(name)[0].value or 0)": CANONICAL,
    "config/settings.py: int(broker)": CANONICAL,
    "config/sources.py: int(escape[1:], 16)": BY_PATTERN,
    "quotas/client_quotas.py: float(limit)": "a number in a record of the broker's own; any error is one of the record",
    "quotas/quotas.py: int(value_max)": OF_A_KIND,
    "quotas/rate.py: int((observed - limit) / limit * span_ms + 0.5)": OF_A_KIND,
    "quotas/token_bucket.py: int(-tokens / limit * 1000 + 0.5)": OF_A_KIND,
    "security/acls.py: int(binding.operation)": OF_A_KIND,
    "security/acls.py: int(binding.pattern_type)": OF_A_KIND,
    "security/acls.py: int(binding.permission)": OF_A_KIND,
    "security/acls.py: int(binding.resource_type)": OF_A_KIND,
    "security/jaas.py: int(escaped, 8)": BY_PATTERN,
    "security/principal_mapping.py: int(digits[:size])": BY_PATTERN,
    "security/signed_tokens.py: float(value)": OF_A_KIND,
    "security/signed_tokens.py: int(expires_seconds * 1000)": OF_A_KIND,
}


def test_texts_become_numbers_in_one_place():
    found = set()
    for room in ROOMS:
        for path in sorted(Path("pipeline_broker", room).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"int", "float"}:
                    found.add(f"{path.relative_to('pipeline_broker')}: {ast.unparse(node)}")
    assert found == KNOWN.keys()
