"""Options that several commands share."""

from pipeline_broker.commands.settings_options import commits_in_flight_option
from pipeline_broker.node.options import ServeOptions
from stages.commit_pace import COMMITS_IN_FLIGHT_MAX


def test_the_default_number_of_commits_in_flight_is_that_of_the_stages():
    """The default is a copy, because `--help` must not import the stages."""

    def command(): ...

    (option,) = commits_in_flight_option(command).__click_params__
    assert option.default == ServeOptions.__attrs_attrs__.commits_in_flight.default == COMMITS_IN_FLIGHT_MAX
