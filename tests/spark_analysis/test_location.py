"""A folder has an address, and writes to it are atomic."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_analysis import load_run
from spark_analysis.__main__ import main
from spark_analysis.errors import TraceError
from spark_analysis.location import Location, local_path

pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),  # PySpark never closes its sockets
]


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("out/compare", "out/compare"),
        ("/out", "/out"),
        ("file:///out/a b", "/out/a b"),
        ("file:/out", "/out"),
        ("s3a://bucket/out", None),
        ("hdfs://host:9000/out", None),
        ("C/out:/a", "C/out:/a"),
    ],
)
def test_an_address_without_a_scheme_is_a_path_of_this_machine(address, path):
    assert local_path(address) == (None if path is None else Path(path))


def test_texts_are_replaced_atomically_without_leftovers(spark, tmp_path):
    place = Location(spark, f"file://{tmp_path}") / "a [b] *.txt"
    assert place.read_text() is None
    for text in ("first \N{SNOWMAN}", "second"):
        place.write_text(text)
        assert place.read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["a [b] *.txt"]


def test_folders_are_listed_renamed_over_each_other_and_removed(spark, tmp_path):
    place = Location(spark, tmp_path)
    for name in ("one", "two"):
        (place / name / "in").is_folder()
        (tmp_path / name / "in").mkdir(parents=True)
        (place / name / "in" / "text").write_text(name)
    assert place.folders() == ["one", "two"]
    assert place.files() == {"one/in/text": 3, "two/in/text": 3}
    assert place.size_bytes() == 6
    (place / "one").rename(place / "two")
    assert (place / "two" / "in" / "text").read_text() == "one"
    assert place.folders() == ["two"]
    (place / "two").remove()
    (place / "two").remove()
    assert place.folders() == []


def test_an_error_of_the_file_system_is_one_line_with_the_address(spark, tmp_path):
    with pytest.raises(TraceError, match=rf"^{tmp_path}/missing: .*does not exist$"):
        Location(spark, tmp_path / "missing").folders()
    with pytest.raises(TraceError, match=r'^nofs://host/out: No FileSystem for scheme "nofs"$'):
        Location(spark, "nofs://host/out").is_folder()
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(TraceError, match="latin is not readable as text"):
        Location(spark, tmp_path / "latin").read_text()


def test_a_file_uri_and_its_path_are_the_same_experiment(small_by_uri, spark):
    folder, (out, _) = small_by_uri
    assert out.endswith(f"report: file://{folder}/report.html\n")
    assert (folder / "report.html").exists()
    assert load_run(f"file:{folder}", spark).client.count() == 4 * 50
    assert load_run(folder, spark).client.count() == 4 * 50


def test_an_unreachable_address_is_one_clear_line(spark, capsys):
    assert spark is not None
    assert main(["nofs://host/out"]) == 2
    assert capsys.readouterr().err == 'error: nofs://host/out/raw: No FileSystem for scheme "nofs"\n'
