"""docs/reference/configuration.md lists the properties that are acted on, with their defaults."""

import re
from pathlib import Path

from pipeline_broker.config.properties import broker_properties, topic_properties
from pipeline_broker.config.settings import ACTED_ON
from pipeline_broker.config.topic_settings import TOPIC_ACTED_ON

DOCUMENT = (Path(__file__).parents[2] / "docs/reference/configuration.md").read_text(encoding="utf-8")


def test_the_document_lists_what_is_acted_on_with_its_default():
    (section,) = re.findall(r"^## Settings that are acted on\n(.*?)^## ", DOCUMENT, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| `([a-z0-9.]+)` \|(.*?)\|", section, re.MULTILINE)
    documented = {name: default.strip(" `") for name, default in rows}

    assert documented.keys() == ACTED_ON
    for name, default in documented.items():
        if not name.startswith("pipeline."):  # those depend on the mode
            assert default == (broker_properties()[name].default or ""), name


def test_every_setting_of_a_topic_is_said_to_act_or_not_to_act():
    (section,) = re.findall(r"^## Topics\n(.*?)^### ", DOCUMENT, re.MULTILINE | re.DOTALL)
    acting, idle = (
        {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(.*?)`", row)}
        for table in section.split("These are kept and shown")
    )
    assert acting == TOPIC_ACTED_ON
    assert idle == topic_properties().keys() - TOPIC_ACTED_ON
