"""docs/configuration.md lists the properties that are acted on, with their defaults."""

import re
from pathlib import Path

from pipeline_broker.config.properties import broker_properties
from pipeline_broker.config.settings import ACTED_ON

DOCUMENT = (Path(__file__).parents[2] / "docs/configuration.md").read_text(encoding="utf-8")


def test_the_document_lists_what_is_acted_on_with_its_default():
    (section,) = re.findall(r"^## Settings that are acted on\n(.*?)^## ", DOCUMENT, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| `([a-z0-9.]+)` \|(.*?)\|", section, re.MULTILINE)
    documented = {name: default.strip(" `") for name, default in rows}

    assert documented.keys() == ACTED_ON
    for name, default in documented.items():
        if not name.startswith("pipeline."):  # those depend on the mode
            assert default == (broker_properties()[name].default or ""), name
