"""The generated parts of docs are current."""

import click
import pytest

from pipeline_broker.config.properties import broker_properties
from pipeline_broker.config.settings import is_acted_on
from scripts.write_reference import DOCS, PART, current, option_table, options, parts, subject_of

PAGES = sorted(DOCS.rglob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_generated_parts_are_current(page):
    """To update them: python -m scripts.write_reference."""
    text = page.read_text(encoding="utf-8")
    assert text == current(text)


def test_every_generated_part_is_on_one_page():
    on_pages = [found["name"] for page in PAGES for found in PART.finditer(page.read_text(encoding="utf-8"))]
    assert sorted(on_pages) == sorted(parts())


def test_every_property_has_a_subject():
    assert all(subject_of(name) for name in broker_properties() if is_acted_on(name))


def test_a_table_of_options_shows_whole_metavars_and_no_hidden_option():
    command = click.Command(
        "serve",
        params=[
            click.Option(["--at"], metavar="[HOST:]PORT"),
            click.Option(["--topic"], metavar="TOPIC[:PARTITION,...]"),
            click.Option(["--wal"], type=click.Choice(["disk", "objects"])),
            click.Option(["--cluster"], hidden=True),
        ],
    )
    rows = option_table(options(command), command).splitlines()[2:]
    assert [row.split(" |  |")[0] for row in rows] == [
        "| `--at [HOST:]PORT`",
        "| `--topic TOPIC[:PARTITION,...]`",
        "| `--wal disk\\|objects`",
    ]
