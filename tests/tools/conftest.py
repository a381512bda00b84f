"""What the tests of the forgetful file system share: a mount for each test."""

import pytest


@pytest.fixture
def mount(mount_forgetful, tmp_path):
    with mount_forgetful(tmp_path) as mounted:
        yield mounted
