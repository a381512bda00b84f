"""What tests of the pytest plugin have in common, wherever they run it."""

import importlib.metadata

PLUGIN = "pipeline_broker.pytest_plugin"


def plugin_arguments():
    """What loads the plugin: nothing, or its name where the installation at hand is older than it."""
    is_installed = any(each.value == PLUGIN for each in importlib.metadata.entry_points(group="pytest11"))
    return () if is_installed else ("-p", PLUGIN)
