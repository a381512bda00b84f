"""Mapping rules work like Kafka's: the first one that matches the whole name decides."""

import time

import pytest

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.principal import KafkaPrincipal
from pipeline_broker.security.principal_mapping import NAME_CHARS_MAX, PrincipalMapping

KAFKAS_EXAMPLE = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    r"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,"
    "DEFAULT"
)


@pytest.mark.parametrize(
    ("rules", "name", "expected"),
    [
        ("", "CN=a,O=b", "CN=a,O=b"),
        ("DEFAULT", "CN=a,O=b", "CN=a,O=b"),
        (KAFKAS_EXAMPLE, "CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        (KAFKAS_EXAMPLE, "CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        (KAFKAS_EXAMPLE, "cn=Bob.X,OU=JavaSoft", "bob.x"),
        (KAFKAS_EXAMPLE, "OU=JavaSoft,O=Sun", "OU=JavaSoft,O=Sun"),
        ("RULE:^CN=(.*?),.*$/$1/U", "CN=Duke,O=x", "DUKE"),
        ("RULE:^CN=(.*?),.*$/$1/", "O=x", None),
        ("RULE:CN=(\\w+)/u-$1/", "CN=Duke", "u-Duke"),
        ("RULE:CN=(\\w+)/u-$1/", "CN=Zoë", None),
        ("RULE:CN=(\\w+)/u-$1/", "CN=Duke,O=x", None),
        ("RULE:CN=(?<user>\\w+)/${user}/", "CN=Duke", "Duke"),
        ("RULE:CN=(?<first>x)?(?<user>\\w+)/${first}-${user}/", "CN=Duke", "-Duke"),
        ("RULE:CN=(\\w+)/$1$2/", "CN=Duke", "Duke$2"),
        ("RULE:CN=(\\w+)/$12/", "CN=Duke", "Duke2"),
        ("RULE:CN=(x)?(\\w+)/$1-$2/", "CN=Duke", "-Duke"),
        (r"RULE:CN=(\w+)/a\/b\$1/", "CN=Duke", "a/b$1"),
        (r"RULE:CN=a\/(\w+)/$1/", "CN=a/b", "b"),
        (" RULE:CN=x/y/ , DEFAULT ", "CN=x", "y"),
        ("RULE:CN=a,O=b/one/,RULE:CN=c,O=d/two/", "CN=c,O=d", "two"),
        ("RULE:.*/all/", "", "all"),
    ],
)
def test_the_first_rule_that_matches_decides(rules, name, expected):
    principal = None if expected is None else KafkaPrincipal("User", expected)
    assert PrincipalMapping(rules).principal(name) == principal


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAULTS",
        "RULE:x",
        "RULE:x/y",
        "RULE:x/y/X",
        "RULE:(/y/",
        "RULE:x/${no}/",
        "RULE:x/y/L DEFAULT",
        ",",
    ],
)
def test_rules_that_cannot_be_read_are_refused_at_the_start(rules):
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules") as caught:
        PrincipalMapping(rules)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "rules", ["RULE:(a)\\1/x/", "RULE:(?=a)a/x/", "RULE:(?<!a)b/x/", "DEFAULT," * 101, "RULE:a/" + "$0" * 101 + "/"]
)
def test_unsupported_or_excessive_rules_are_refused(rules):
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules") as caught:
        PrincipalMapping(rules)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("RULE:^CN=(a+)+$/x/", "CN=" + "a" * 4_000 + "!"),
        ("RULE:(?:a?){400}b/x/," * 99 + "DEFAULT", "a" * 4_000),
        ("RULE:.*/" + "$0" * 100 + "/", "a" * 4_000),
        ("RULE:(?:a|b)*/$0/", "ab" * 2_000),
        ("RULE:a*/x/", "a" * 4_000),
    ],
)
def test_a_name_is_mapped_or_refused_in_milliseconds(rules, name):
    mapping = PrincipalMapping(rules)
    began = time.thread_time()
    principal = mapping.principal(name)
    assert time.thread_time() - began < 0.05
    assert principal is None or len(principal.name) <= NAME_CHARS_MAX or principal.name == name


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("CN=[a-z[0-9]]+", "neither nested classes"),
        ("CN=[a-z&&[^x]]+", "neither nested classes"),
        ("CN=[a-z&&b]", "nor &&"),
        ("CN=[[:alpha:]]+", "neither nested classes"),
        ("CN=[^a[b]]", "neither nested classes"),
        ("CN=[]a[b]]", "neither nested classes"),
        (r"CN=[\]a[b]]", "neither nested classes"),
        (r"CN=\v", r"RE2 does not support Java's \v"),
        (r"CN=(a)\12", r"RE2 does not support Java's \1"),
        (r"CN=\0101", r"RE2 does not support Java's \0"),
        (r"CN=(?U)\w+", "the flag U of Java"),
        (r"CN=(?iU:\w+)", "the flag U of Java"),
    ],
)
def test_patterns_that_java_and_re2_read_differently_are_refused(pattern, said):
    with pytest.raises(ConfigError) as caught:
        PrincipalMapping(f"RULE:{pattern}/x/")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        (r"[\[\]&]+", "[&]"),
        ("[]a]+", "]a"),
        ("[^]a]+", "bc"),
        ("a&&b", "a&&b"),
        (r"\Qa[b[c]&&\E", "a[b[c]&&"),
        ("[(?<n]+", "(?<n"),
        ("[(?U)]+", "U"),
        (r"\\(?<n>a)", r"\a"),
        (r"[a-z&]+\x41", "a&A"),
        ("(?i-s:a)", "A"),
    ],
)
def test_patterns_that_java_and_re2_read_alike_are_accepted(pattern, name):
    assert PrincipalMapping(f"RULE:{pattern}/x/").principal(name) is not None


def test_java_replaces_each_match_up_to_a_bound():
    assert PrincipalMapping("RULE:(?:a|b|,)*/x/").principal("a,b") == KafkaPrincipal("User", "xx")
    assert PrincipalMapping("RULE:[ab]|(?:[ab][ab])+/x/").principal("abab") == KafkaPrincipal("User", "xxxx")
    assert PrincipalMapping("RULE:[ab]|(?:[ab][ab])+/x/").principal("ab" * 10) is None
