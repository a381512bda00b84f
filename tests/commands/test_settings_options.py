"""What the options of several commands have in common."""

from pipeline_broker.commands.settings_options import commits_in_flight_option
from pipeline_broker.node.options import ServeOptions
from stages.commit_pace import COMMITS_IN_FLIGHT_MAX


def test_as_many_commits_are_in_flight_as_the_stages_say():
    """The option's default is written out, because a help text does not import the stages."""

    def command():
        """Take the option."""

    (option,) = commits_in_flight_option(command).__click_params__
    assert option.default == ServeOptions.__attrs_attrs__.commits_in_flight.default == COMMITS_IN_FLIGHT_MAX
