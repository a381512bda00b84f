"""External programs of tests. A test without one skips, and names its Debian package; with REQUIRE_TOOLS=1 it fails."""

import os
import shutil
from ctypes.util import find_library

import pytest

TOOLS = {
    "chromedriver": "chromium-driver",
    "chromium": "chromium",
    "eatmydata": "eatmydata",
    "faketime": "faketime",
    "fish": "fish",
    "fusermount": "fuse",
    "java": "default-jdk-headless",
    "javac": "default-jdk-headless",
    "keytool": "default-jdk-headless",
    "libfuse": "libfuse2",
    "mvn": "maven",
    "openssl": "openssl",
    "strace": "strace",
    "systemd-analyze": "systemd",
    "zsh": "zsh",
}
"""Programs (and one library) that tests need, with the Debian package of each; `make system-packages` installs them."""


def absent(reason):
    if os.environ.get("REQUIRE_TOOLS") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def find_tool(name):
    if name == "libfuse":
        # fusepy speaks the interface of version 2
        library = find_library("fuse")
        return library if library and library.endswith(".so.2") else None
    return shutil.which(name)


def without(*names):
    """Return why programs cannot run, or None."""
    for name in names:
        if find_tool(name) is None:
            return f"needs {name} of the Debian package {TOOLS[name]}: make system-packages"
    return None


def require_tool(name):
    if reason := without(name):
        absent(reason)
    return find_tool(name)
