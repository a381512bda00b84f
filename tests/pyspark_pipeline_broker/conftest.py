"""What tests of the data source share."""

import pytest


@pytest.fixture(autouse=True)
def _leaves_nothing_behind():
    """PySpark opens sockets to its JVM as it needs them, and leaves them to the garbage collector."""
