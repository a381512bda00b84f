"""docs/reference/configuration.md documents every property with an effect; tests/scripts checks its generated
tables.
"""

import re
from pathlib import Path

from pipeline_broker.config.properties import broker_properties, topic_properties
from pipeline_broker.config.settings import is_acted_on, is_topic_setting_acted_on

DOCUMENT = (Path(__file__).parents[2] / "docs/reference/configuration.md").read_text(encoding="utf-8")


def test_every_property_with_an_effect_is_documented():
    assert [
        each.name for each in broker_properties().values() if is_acted_on(each.name) and not each.documentation
    ] == []
    topics = [each for each in topic_properties().values() if is_topic_setting_acted_on(each.name)]
    assert [each.name for each in topics if not each.documentation] == []


def test_every_setting_of_a_topic_without_effect_has_a_reason():
    (section,) = re.findall(r"^\| setting of a topic \| reason \|\n(.*?)^### ", DOCUMENT, re.MULTILINE | re.DOTALL)
    idle = {name for row in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE) for name in re.findall(r"`(.*?)`", row)}
    assert idle == {name for name in topic_properties() if not is_topic_setting_acted_on(name)}
