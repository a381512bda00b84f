"""Runs documented programs in an environment without settings, like a reader of the docs: PATH has another Python."""

import os
import subprocess
import sys

from spark_analysis.java import find_java
from tests.short_java import SHORT_JAVA


def output_of(program, directory):
    """Run a program that must exit with 0, and return its output."""
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(directory), "JAVA_HOME": str(find_java())}
    bare["JDK_JAVA_OPTIONS"] = SHORT_JAVA
    bare |= {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}  # another PySpark to test
    done = subprocess.run(
        [sys.executable, "-c", program], env=bare, cwd=directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout
