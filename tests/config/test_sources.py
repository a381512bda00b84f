import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.sources import read_argument, read_located_settings, read_settings_file


def read(tmp_path, text, name="server.properties"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_settings_file(path)


def test_an_argument_is_split_at_the_first_equals_sign():
    assert read_argument("listeners = PLAINTEXT://h:1?a=b") == ("listeners", "PLAINTEXT://h:1?a=b")


@pytest.mark.parametrize("argument", ["", "num.io.threads", "=8"])
def test_an_argument_without_a_name_and_a_value_is_refused(argument):
    with pytest.raises(ConfigError, match="name=value"):
        read_argument(argument)


def test_a_properties_file_is_parsed_as_in_java(tmp_path):
    text = (
        "# comment\n! another\n\nnum.io.threads=4\n  num.partitions : 3\nlog.dirs /data/a\\ b\n"
        "log.cleanup.policy=compact,\\\n    delete\nempty=\r\nbroker.rack=\\u00e9\\t!\nwin.path=c:\\\\x\\\\\nlast=1"
    )
    assert read(tmp_path, text) == [
        ("num.io.threads", "4"),
        ("num.partitions", "3"),
        ("log.dirs", "/data/a b"),
        ("log.cleanup.policy", "compact,delete"),
        ("empty", ""),
        ("broker.rack", "é\t!"),
        ("win.path", "c:\\x\\"),
        ("last", "1"),
    ]


def test_a_setting_of_a_file_has_its_place(tmp_path):
    properties, toml = tmp_path / "server.properties", tmp_path / "broker.toml"
    properties.write_text("# comment\n\nlog.cleanup.policy=compact,\\\n  delete\nnum.partitions=3")
    toml.write_text("num.partitions = 3\n")
    assert read_located_settings(properties) == [
        ("log.cleanup.policy", "compact,delete", f"{properties}, line 3"),
        ("num.partitions", "3", f"{properties}, line 5"),
    ]
    assert read_located_settings(toml) == [("num.partitions", "3", str(toml))]


@given(st.text())
def test_any_text_is_a_properties_file(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.properties"
    path.write_bytes(text.encode("utf-8", "ignore"))
    for name, value in read_settings_file(path):
        assert isinstance(name, str)
        assert value == value.strip()


def test_a_toml_file_gives_dotted_names_for_tables_and_quoted_keys(tmp_path):
    text = (
        'num.io.threads = 4\n"max.connections" = 5\n"max.connections.per.ip" = 2\nauto.create.topics.enable = false\n'
        'log.cleanup.policy = ["compact", "delete"]\n[pipeline]\ncommit = "group"\n'
    )
    assert read(tmp_path, text, "broker.toml") == [
        ("num.io.threads", "4"),
        ("max.connections", "5"),
        ("max.connections.per.ip", "2"),
        ("auto.create.topics.enable", "false"),
        ("log.cleanup.policy", "compact,delete"),
        ("pipeline.commit", "group"),
    ]


@pytest.mark.parametrize("text", ["a = ", "a = 1979-05-27", "a = [[1]]"])
def test_an_invalid_toml_file_gives_a_one_line_error(tmp_path, text):
    with pytest.raises(ConfigError, match=r"broker\.toml") as caught:
        read(tmp_path, text, "broker.toml")
    assert "\n" not in str(caught.value)


def test_a_missing_file_a_directory_and_a_binary_file_give_a_one_line_error(tmp_path):
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "absent", tmp_path, tmp_path / "binary"):
        with pytest.raises(ConfigError, match="cannot read"):
            read_settings_file(path)
