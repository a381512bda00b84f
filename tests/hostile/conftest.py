"""One prepared directory for all brokers of a run."""

import pytest

from tests.crashes.lengths import AT_LENGTH
from tests.hostile import prepared
from tests.hostile.harness import in_memory


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """The folder of the prepared directory, and what is in it."""
    with in_memory(tmp_path_factory.getbasetemp()) as folder:
        yield folder, prepared.prepare(folder, prepared.LARGE if AT_LENGTH else prepared.ORDINARY)
