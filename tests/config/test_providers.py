"""Values of config providers: resolved only at a start, within limits, and never shown."""

import os

import pytest

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.config.providers import references, resolve
from pipeline_broker.config.resolution import BrokerSettings, broker_entry, topic_entry
from pipeline_broker.config.settings import load_settings, parse_settings

PACKAGE = "org.apache.kafka.common.config.provider."


def declared(name, class_name, **parameters):
    return {
        "config.providers": name,
        f"config.providers.{name}.class": PACKAGE + class_name,
        **{f"config.providers.{name}.param.{each.replace('_', '.')}": text for each, text in parameters.items()},
    }


ENVIRONMENT = declared("env", "EnvVarConfigProvider")


def test_an_environment_variable_is_resolved(monkeypatch):
    monkeypatch.setenv("THREADS", "4")
    monkeypatch.setenv("USER_NAME", "bob")
    settings, secrets = resolve(
        {**ENVIRONMENT, "num.io.threads": "${env:THREADS}", "super.users": "User:${env:USER_NAME}"}
    )
    assert (settings["num.io.threads"], settings["super.users"]) == ("4", "User:bob")
    assert secrets == {"num.io.threads", "super.users"}


def test_a_key_in_a_file_and_the_content_of_a_file_are_resolved(tmp_path):
    (tmp_path / "secrets.toml").write_text("a.key = of \\\n  the file\nother=2\n")
    (tmp_path / "password").write_text("s3cret\n")
    settings, _ = resolve(
        {
            **declared("file", "FileConfigProvider"),
            **declared("dir", "DirectoryConfigProvider", allowed_paths=str(tmp_path)),
            "config.providers": "file, dir",
            "a": f"${{file:{tmp_path}/secrets.toml:a.key}}!",
            "b": f"<${{dir:{tmp_path}:password}}>",
        }
    )
    assert (settings["a"], settings["b"]) == ("of the file!", "<s3cret\n>")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${env:NOT_SET_ANYWHERE}", "the variable is not set"),
        ("${env:HOME}", "allowlist.pattern does not allow"),
        ("${env:path:A_1}", "has no path"),
        ("${vault:x}", "config.providers names env, file, dir, other"),
        ("${file:OUTSIDE/f:k}", "allowed.paths does not allow"),
        ("${file:INSIDE/link:k}", "allowed.paths does not allow"),
        ("${file:INSIDE/../outside/f:k}", "allowed.paths does not allow"),
        ("${file:relative/f:k}", "not an absolute path"),
        ("${file:INSIDE/none:k}", "No such file"),
        ("${file:INSIDE/f:other}", "no such key"),
        ("${file:INSIDE/fifo:k}", "not a regular file"),
        ("${dir:INSIDE:../outside/f}", "not the name of a file"),
        ("${dir:INSIDE:none}", "No such file"),
        ("${other:x}", "the class com.example.Other of the provider other is not supported"),
    ],
)
def test_a_reference_that_cannot_be_resolved_refuses_the_start(text, said, tmp_path, monkeypatch):
    monkeypatch.setenv("A_1", "x")
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    for folder in (inside, outside):
        folder.mkdir(exist_ok=True)
        (folder / "f").write_text("k=v")
    if not (inside / "link").is_symlink():
        (inside / "link").symlink_to(outside / "f")
        os.mkfifo(inside / "fifo")
    settings = {
        **declared("env", "EnvVarConfigProvider", allowlist_pattern="[A-G]_.*|NOT_.*"),
        **declared("file", "FileConfigProvider", allowed_paths=f"/nowhere,{inside}"),
        **declared("dir", "DirectoryConfigProvider", allowed_paths=str(inside)),
        "config.providers": "env,file,dir,other",
        "config.providers.other.class": "com.example.Other",
        "ssl.key.password": text.replace("INSIDE", str(inside)).replace("OUTSIDE", str(outside)),
    }
    with pytest.raises(ConfigError, match=r"ssl\.key\.password: .* cannot be resolved") as refused:
        resolve(settings)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_without_providers_a_reference_refuses_the_start_and_other_dollars_are_text():
    with pytest.raises(ConfigError, match="is not set"):
        resolve({"a": "${env:X}"})
    for text in ("$1/L", "${x}", "${", "${:a}", "$${x}", "RULE:^CN=(.*?)$/$1/"):
        assert resolve({"a": text}) == ({"a": text}, frozenset())
    assert references("${a:b}-${c}-${d:e:f}") == ["${a:b}", "${d:e:f}"]


def test_a_resolved_value_is_not_resolved_again(monkeypatch):
    monkeypatch.setenv("A", "${env:B}")
    monkeypatch.setenv("B", "secret")
    assert resolve({**ENVIRONMENT, "x": "${env:A}"})[0]["x"] == "${env:B}"


def test_a_resolved_value_is_never_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("KEPT_MS", "86400000")
    monkeypatch.setenv("WRONG", "hunter2")
    file = tmp_path / "server.properties"
    file.write_text(
        "\n".join(f"{name}={text}" for name, text in {**ENVIRONMENT, "log.retention.ms": "${env:KEPT_MS}"}.items())
    )
    config, _ = load_settings([file], [])
    settings = BrokerSettings(static=config.properties, secrets=config.secrets)
    entry = broker_entry("log.retention.ms", settings)
    assert (entry.definition.sensitive, [synonym.value for synonym in entry.synonyms][:1]) == (True, [None])
    topic = topic_entry("retention.ms", {}, settings)
    assert topic.definition.sensitive
    assert {synonym.value for synonym in topic.synonyms} == {None}
    assert settings.inherited_value("retention.ms") == 86_400_000, "a secret value applies nevertheless"
    with pytest.raises(ConfigError) as refused:
        load_settings([file], ["num.partitions=${env:WRONG}"])
    assert "hunter2" not in str(refused.value)
    assert str(refused.value) == "num.partitions: the value is not allowed"


def test_a_reference_in_a_value_from_a_client_stays_text():
    config, _ = parse_settings([("ssl.key.password", "${env:HOME}")])
    assert config.properties["ssl.key.password"] == "${env:HOME}"
