"""The package is cheap to import, and every public name is found on first use."""

import subprocess
import sys

import pytest

import spark_analysis


def test_importing_the_package_imports_neither_spark_nor_arrow():
    program = "import sys, spark_analysis; print([m for m in ('pyspark', 'pyarrow', 'attrs') if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout == "[]\n"


@pytest.mark.parametrize("name", spark_analysis.__all__)
def test_a_public_name_is_the_one_of_its_module(name):
    found = getattr(spark_analysis, name)
    assert found.__name__ == name
    assert found.__doc__


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        spark_analysis.nothing  # noqa: B018
