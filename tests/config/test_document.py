"""docs/reference/configuration.md documents every property with an effect; tests/scripts checks its generated
tables.
"""

import re
from pathlib import Path

from pipeline_broker.config.properties import broker_properties, topic_properties
from pipeline_broker.config.settings import ACTED_ON
from pipeline_broker.config.topic_settings import TOPIC_ACTED_ON

DOCUMENT = (Path(__file__).parents[2] / "docs/reference/configuration.md").read_text(encoding="utf-8")


def test_every_property_with_an_effect_is_documented():
    assert [name for name in ACTED_ON if not broker_properties()[name].documentation] == []
    assert [name for name in TOPIC_ACTED_ON if not topic_properties()[name].documentation] == []


def test_every_setting_of_a_topic_without_effect_has_a_reason():
    (section,) = re.findall(r"^\| setting of a topic \| reason \|\n(.*?)^### ", DOCUMENT, re.MULTILINE | re.DOTALL)
    idle = {name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(.*?)`", row)}
    assert idle == topic_properties().keys() - TOPIC_ACTED_ON
