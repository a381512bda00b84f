"""TLS contexts follow the settings, tested by handshakes in memory; a failed reload changes nothing.

Longer than most files: every setting is tested by the same handshakes.
"""

import base64
import contextlib
import datetime as dt
import os
import ssl
import subprocess
import tempfile
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.pem import FILE_BYTES_MAX, read_key_store
from pipeline_broker.security.principal import ANONYMOUS
from pipeline_broker.security.tls import TlsContexts

AUTHORITY, STRANGER = trustme.CA(), trustme.CA()
SERVER = AUTHORITY.issue_cert("localhost", common_name="broker")
CLIENT = AUTHORITY.issue_cert("client.test", common_name="duke")
STRANGERS_CLIENT = STRANGER.issue_cert("client.test", common_name="duke")
PASSWORD = "key-password"


def chain(issued):
    return "".join(blob.bytes().decode() for blob in issued.cert_chain_pems)


def key(issued, encryption=None):
    loaded = load_pem_private_key(issued.private_key_pem.bytes(), None)
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption or NoEncryption()).decode()


CA_PEM = AUTHORITY.cert_pem.bytes().decode()


@pytest.fixture
def settings(tmp_path):
    return stored(tmp_path, SERVER)


def stored(directory, issued, **more):
    path = directory / "store.pem"
    path.write_text(key(issued) + chain(issued))
    return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path), **more}


def inline(**more):
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key(SERVER),
        "ssl.keystore.certificate.chain": chain(SERVER),
        **more,
    }


def with_trust(settings, auth="required"):
    return {
        **settings,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA_PEM,
        "ssl.client.auth": auth,
    }


def client_context(issued=None, lowest=None, highest=None):
    context = ssl.create_default_context(cadata=CA_PEM)
    if lowest is not None:
        context.minimum_version = lowest
    if highest is not None:
        context.maximum_version = highest
    if issued is not None:
        issued.configure_cert(context)
    return context


def handshake(context, client):
    """Run both sides of a handshake in memory; return the server's."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server_side = context.wrap_bio(to_server, to_client, server_side=True)
    client_side = client.wrap_bio(to_client, to_server, server_hostname="localhost")
    waiting = [client_side, server_side]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                pass
        if not waiting:
            return server_side
    raise AssertionError("the handshake makes no progress")


@pytest.mark.parametrize(
    ("days", "said"), [(-1, "has expired, and clients refuse it"), (3, "expires soon"), (30, None)]
)
def test_a_certificate_at_its_end_is_warned_of(tmp_path, days, said):
    now = dt.datetime.now(dt.UTC)
    issued = AUTHORITY.issue_cert("localhost", not_after=now + dt.timedelta(days=days))
    warning = TlsContexts(stored(tmp_path, issued)).warning(now)
    assert (warning is None) if said is None else (said in warning and "renew it" in warning)


def test_a_store_in_a_file_is_served(settings):
    side = handshake(TlsContexts(settings).context(), client_context())
    assert side.version() == "TLSv1.3"
    assert side.getpeercert(binary_form=True) is None


def test_without_files_in_memory_a_store_is_served_and_no_key_stays_on_disk(settings, tmp_path, monkeypatch):
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    assert handshake(TlsContexts(settings).context(), client_context())
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.parametrize("blank", ["\n", " ", "\r\n"])
def test_a_store_in_the_settings_is_served_with_joined_lines(blank):
    made = inline()
    joined = {name: text.replace("\n", blank) if "PEM" not in text else text for name, text in made.items()}
    assert handshake(TlsContexts(joined).context(), client_context())


def test_an_encrypted_key_needs_its_password():
    encrypted = key(SERVER, BestAvailableEncryption(PASSWORD.encode()))
    settings = inline(**{"ssl.keystore.key": encrypted})
    assert handshake(TlsContexts({**settings, "ssl.key.password": PASSWORD}).context(), client_context())
    for wrong in ({}, {"ssl.key.password": "wrong-password"}):
        with pytest.raises(ConfigError, match=r"ssl\.key\.password") as caught:
            TlsContexts({**settings, **wrong})
        assert "wrong-password" not in str(caught.value)


def test_a_client_that_need_not_show_a_certificate_is_anonymous(settings):
    contexts = TlsContexts(with_trust(settings, "requested"))
    assert (
        contexts.principal(handshake(contexts.context(), client_context()).getpeercert(binary_form=True)) == ANONYMOUS
    )
    side = handshake(contexts.context(), client_context(CLIENT))
    assert contexts.principal(side.getpeercert(binary_form=True)).name.startswith("CN=duke,")


def test_a_certificate_is_mapped_to_a_user(settings):
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/U"}
    contexts = TlsContexts({**with_trust(settings), **rules})
    side = handshake(contexts.context(), client_context(CLIENT))
    assert str(contexts.principal(side.getpeercert(binary_form=True))) == "User:DUKE"


def test_a_certificate_without_a_mapping_rule_has_no_principal(settings):
    contexts = TlsContexts({**with_trust(settings), "ssl.principal.mapping.rules": "RULE:^CN=x$/x/"})
    side = handshake(contexts.context(), client_context(CLIENT))
    assert contexts.principal(side.getpeercert(binary_form=True)) is None
    assert contexts.principal(b"no certificate") is None


def expired_client():
    now = dt.datetime.now(dt.UTC)
    return AUTHORITY.issue_cert("client.test", common_name="duke", not_after=now - dt.timedelta(hours=1))


@pytest.mark.parametrize(
    ("auth", "issued"),
    [
        ("required", lambda: None),
        ("required", lambda: STRANGERS_CLIENT),
        ("requested", lambda: STRANGERS_CLIENT),
        ("required", expired_client),
    ],
    ids=["none", "of another authority", "of another authority, only requested", "expired"],
)
def test_a_client_without_a_good_certificate_is_refused(settings, auth, issued):
    contexts = TlsContexts(with_trust(settings, auth))
    with pytest.raises(ssl.SSLError):
        handshake(contexts.context(), client_context(issued()))


def test_a_certificate_for_servers_only_is_refused(settings, tmp_path):
    """It has the wrong extended key usage."""
    contexts = TlsContexts(with_trust(settings))
    with pytest.raises(ssl.SSLError):
        handshake(contexts.context(), client_context(for_servers_only()))


def for_servers_only():
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    authority_key = load_pem_private_key(AUTHORITY.private_key_pem.bytes(), None)
    authority = x509.load_pem_x509_certificate(AUTHORITY.cert_pem.bytes())
    usual = x509.load_pem_x509_certificate(CLIENT.cert_chain_pems[0].bytes())
    builder = x509.CertificateBuilder(
        authority.subject, usual.subject, usual.public_key(), 7, usual.not_valid_before_utc, usual.not_valid_after_utc
    ).add_extension(x509.ExtendedKeyUsage([x509.oid.ExtendedKeyUsageOID.SERVER_AUTH]), critical=True)
    made = builder.sign(authority_key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return trustme.LeafCert(CLIENT.private_key_pem.bytes(), made, [])


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_nothing_below_tls_1_2_is_spoken(settings, version):
    with pytest.raises(ssl.SSLError):
        handshake(TlsContexts(settings).context(), client_context(lowest=version, highest=version))


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_one_version_can_be_chosen(settings, version):
    contexts = TlsContexts({**settings, "ssl.enabled.protocols": version})
    assert handshake(contexts.context(), client_context()).version() == version


def test_obsolete_versions_may_be_listed_beside_others(settings):
    context = TlsContexts({**settings, "ssl.enabled.protocols": "TLSv1.2,TLSv1.1,TLSv1"}).context()
    assert handshake(context, client_context()).version() == "TLSv1.2"


def test_suites_can_be_chosen_by_javas_names(settings):
    suite = {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"}
    side = handshake(TlsContexts({**settings, **suite}).context(), client_context())
    assert side.cipher()[0].endswith("AES256-GCM-SHA384")
    assert side.version() == "TLSv1.2"
    only_13 = {"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256"}
    context = TlsContexts({**settings, **only_13}).context()
    with pytest.raises(ssl.SSLError):
        handshake(context, client_context(highest=ssl.TLSVersion.TLSv1_2))


@pytest.mark.parametrize(("bits", "is_refused"), [(4096, False), (8192, False), (16384, True)])
def test_a_private_key_that_signs_slowly_is_refused(bits, is_refused):
    """By its size: n, d, both primes and their three exponents, as PKCS#8 has them."""
    der = bytes(9 * bits // 16 + 80)
    block = f"-----BEGIN PRIVATE KEY-----\n{base64.b64encode(der).decode()}\n-----END PRIVATE KEY-----\n"
    settings = inline(**{"ssl.keystore.key": block})
    if is_refused:
        with pytest.raises(ConfigError, match=r"more than 8,192 bits\. Use an RSA key of 2,048 to 4,096 bits"):
            read_key_store(settings)
    else:
        assert read_key_store(settings).key.count("\n") > 10


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ssl.keystore.type": "JKS"}, "keytool -importkeystore"),
        ({"ssl.keystore.type": "PKCS12"}, "the PKCS12 store cannot be read"),
        ({"ssl.keystore.type": "BCFKS"}, "BCFKS cannot be read here"),
        ({"ssl.keystore.location": "/no/such/file"}, "No such file"),
        ({"ssl.keystore.location": "/dev/null"}, "cannot read /dev/null: it is not a regular file"),
        ({"ssl.keystore.location": "/dev/ptmx"}, "cannot read /dev/ptmx: it is not a regular file"),
        ({"ssl.keystore.location": "/proc/version"}, "one private key"),
        ({"ssl.keystore.location": ""}, "needs ssl.keystore.location"),
        ({"ssl.keystore.key": "x"}, "both set"),
        ({"ssl.keystore.certificate.chain": "x"}, "both set"),
        ({"ssl.keystore.password": "secret-1"}, "no effect with PEM"),
        ({"ssl.client.auth": "perhaps"}, "ssl.client.auth"),
        ({"ssl.client.auth": "required"}, "Set ssl.truststore"),
        ({"ssl.truststore.location": "/dev/null"}, "cannot read /dev/null: it is not a regular file"),
        ({"ssl.truststore.location": "/a.pem"}, "set ssl.truststore.type=PEM and ssl.truststore.location=/a.pem"),
        ({"ssl.truststore.location": "/dev/null", "ssl.truststore.type": "PEM"}, "it is not a regular file"),
        ({"ssl.truststore.certificates": "x", "ssl.truststore.type": "PEM"}, "certificates contains no certificate"),
        ({"ssl.truststore.location": "/a.jks"}, "cannot read /a.jks: No such file"),
        ({"ssl.enabled.protocols": "TLSv1.1,TLSv1"}, "'TLSv1.1' is not allowed"),
        ({"ssl.enabled.protocols": "TLSv1.4,TLSv1.2"}, "'TLSv1.4' is not allowed"),
        ({"ssl.protocol": "SSLv3"}, "SSLv3"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_NULL_SHA"}, "TLS_RSA_WITH_NULL_SHA"),
        ({"ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "together"),
        (
            {"ssl.cipher.suites": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ssl.enabled.protocols": "TLSv1.3"},
            "no suite",
        ),
        ({"ssl.principal.mapping.rules": "x"}, "mapping"),
    ],
    ids=str,
)
def test_the_error_of_an_unusable_setting_is_one_line(settings, change, said):
    with pytest.raises(ConfigError, match=said) as caught:
        TlsContexts({**settings, **change})
    assert "\n" not in str(caught.value)
    assert "secret-1" not in str(caught.value)


def test_a_suite_that_was_chosen_is_spoken_although_stronger_ones_are_known(settings):
    suite = {"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"}
    assert (
        handshake(TlsContexts({**settings, **suite}).context(), client_context())
        .cipher()[0]
        .endswith("AES128-GCM-SHA256")
    )


def test_without_a_setting_all_allowed_versions_are_enabled(settings):
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = TlsContexts({**settings, "ssl.enabled.protocols": ""}).context()
        assert handshake(context, client_context(lowest=version, highest=version))


def test_renegotiation_is_disabled_and_the_order_of_suites_is_the_brokers(settings):
    wanted = ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE
    assert TlsContexts(settings).context().options & (wanted | ssl.OP_NO_SSLv3) == wanted | ssl.OP_NO_SSLv3


@pytest.mark.parametrize("missing", ["ssl.keystore.key", "ssl.keystore.certificate.chain"])
def test_of_a_store_in_the_settings_both_halves_are_needed(missing):
    settings = inline()
    del settings[missing]
    with pytest.raises(ConfigError, match=r"needs ssl\.keystore\.location, or"):
        TlsContexts(settings)


def test_a_store_with_two_keys_is_refused():
    with pytest.raises(ConfigError, match="one private key"):
        TlsContexts(inline(**{"ssl.keystore.key": key(SERVER) + key(CLIENT)}))


@pytest.mark.parametrize(
    "damage",
    [lambda body: body[: len(body) // 4 * 4 - 3], lambda body: body[: len(body) // 4 * 4 - 2] + "==="],
    ids=["cut", "padded"],
)
def test_the_error_names_the_kind_of_a_damaged_block(damage):
    first, *body, last = chain(SERVER).splitlines()
    text = f"{first}\n{damage(''.join(body).rstrip('='))}\n{last}\n"
    with pytest.raises(ConfigError, match="contains a damaged certificate"):
        TlsContexts(inline(**{"ssl.keystore.certificate.chain": text}))


def test_a_key_without_a_certificate_is_refused(tmp_path):
    (tmp_path / "key.pem").write_text(key(SERVER))
    with pytest.raises(ConfigError, match="its certificates"):
        TlsContexts({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(tmp_path / "key.pem")})


def test_the_way_from_a_java_store_names_it_or_an_example(tmp_path):
    store = tmp_path / "my.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")  # the first bytes of a store in Java's own format
    for location, named in [({}, "store.jks"), ({"ssl.keystore.location": str(store)}, str(store))]:
        with pytest.raises(ConfigError, match=f"-srckeystore {named} "):
            TlsContexts({"ssl.keystore.type": "JKS", **location})


def test_the_way_from_a_java_store_that_the_refusal_names_leads_here(tmp_path):
    """The openssl half of the conversion; the keytool half needs Java."""
    pem, store = tmp_path / "in.pem", tmp_path / "store.p12"
    pem.write_text(key(SERVER) + chain(SERVER))
    export = ["openssl", "pkcs12", "-export", "-in", pem, "-out", store, "-passout", "pass:changeit"]
    subprocess.run(export, check=True, capture_output=True)
    path = tmp_path / "store.pem"
    convert = ["openssl", "pkcs12", "-in", store, "-noenc", "-out", path, "-passin", "pass:changeit"]
    subprocess.run(convert, check=True, capture_output=True)
    contexts = TlsContexts({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)})
    assert handshake(contexts.context(), client_context())


def test_a_store_is_read_up_to_its_bound_and_its_blocks_have_their_usual_form(settings):
    """1 MiB, with any comment around the blocks. Lines have 64 characters, which every reader of PEM accepts."""
    path = Path(settings["ssl.keystore.location"])
    text = path.read_text().replace("-----\n", "-----\n ").replace("\n", "\n\n")
    path.write_text(text.ljust(FILE_BYTES_MAX, "#"))
    store = read_key_store(settings)
    lines = [line for block in (store.key, *store.chain) for line in block.splitlines()]
    assert max(len(line) for line in lines if not line.startswith("-")) == 64
    assert store.chain == (chain(SERVER),)
    with path.open("a") as file:
        file.write("#")
    with pytest.raises(ConfigError, match="1048577 bytes, but at most 1048576 are allowed"):
        read_key_store(settings)


def test_a_reload_of_the_same_certificate_skips_the_check_of_its_names(settings):
    contexts = TlsContexts(settings)
    before = contexts.context()
    contexts.reload()
    assert contexts.context() is not before


@pytest.mark.parametrize(
    ("change", "is_served"),
    [
        ({"ssl.protocol": "TLS"}, True),
        ({"ssl.protocol": "TLSv1.3"}, True),
        ({"ssl.protocol": "SSL"}, False),
        ({"ssl.enabled.protocols": "TLS"}, False),
    ],
)
def test_only_javas_name_of_the_context_may_leave_the_version_open(settings, change, is_served):
    if is_served:
        assert handshake(TlsContexts({**settings, **change}).context(), client_context())
    else:
        with pytest.raises(ConfigError, match="is not allowed"):
            TlsContexts({**settings, **change})


def test_a_certificate_in_the_trust_store_needs_no_issuer(settings):
    """As in Java, every certificate in the trust store is trusted, an authority or not."""
    trusting = {**with_trust(settings), "ssl.truststore.certificates": chain(STRANGERS_CLIENT)}
    assert handshake(TlsContexts(trusting).context(), client_context(STRANGERS_CLIENT))


def test_a_reload_of_the_same_path_counts_from_the_next_connection_on(settings, tmp_path):
    contexts = TlsContexts(settings)
    before = contexts.context()
    renewed = AUTHORITY.issue_cert("localhost", common_name="broker")
    allowed = stored(tmp_path, renewed, **{"ssl.allow.dn.changes": "true"})  # trustme puts a random text in each name
    contexts.reload(allowed)
    assert contexts.context() is not before
    assert served_chain(contexts) == chain(renewed)


def served_chain(contexts):
    """Return the chain that a client receives; trustme's chains are one certificate long."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = contexts.context().wrap_bio(to_server, to_client, server_side=True)
    client = client_context().wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(4):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return ssl.DER_cert_to_PEM_cert(client.getpeercert(binary_form=True))


@pytest.mark.parametrize("damage", ["-----BEGIN", "", "garbage"])
def test_a_reload_that_fails_changes_nothing(settings, tmp_path, damage):
    contexts = TlsContexts(settings)
    before = contexts.context()
    (tmp_path / "store.pem").write_text(damage)
    with pytest.raises(ConfigError):
        contexts.reload()
    assert contexts.context() is before
    assert served_chain(contexts) == chain(SERVER)


def test_a_change_that_is_refused_leaves_the_settings_too(tmp_path):
    contexts = TlsContexts(stored(folder(tmp_path, "own"), SERVER))
    other = AUTHORITY.issue_cert("elsewhere.test", common_name="another")
    with pytest.raises(ConfigError, match="is for"):
        contexts.reload(stored(folder(tmp_path, "others"), other))
    contexts.reload()
    assert served_chain(contexts) == chain(SERVER)


def test_a_reload_reads_the_files_of_the_latest_settings(tmp_path):
    contexts = TlsContexts(stored(folder(tmp_path, "before"), SERVER))
    allowed = {"ssl.allow.dn.changes": "true"}  # trustme puts a random text in each name
    contexts.reload(stored(folder(tmp_path, "now"), SERVER, **allowed))
    renewed = AUTHORITY.issue_cert("localhost", common_name="broker")
    stored(tmp_path / "now", renewed)
    contexts.reload()
    assert served_chain(contexts) == chain(renewed)


def folder(parent, name):
    (parent / name).mkdir()
    return parent / name


def test_mapping_rules_that_are_changed_count_from_the_next_connection_on(settings):
    contexts = TlsContexts(with_trust(settings))
    certificate = handshake(contexts.context(), client_context(CLIENT)).getpeercert(binary_form=True)
    assert contexts.principal(certificate).name.startswith("CN=duke,")
    contexts.reload({**with_trust(settings), "ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/U"})
    assert str(contexts.principal(certificate)) == "User:DUKE"
    contexts.reload({**with_trust(settings), "ssl.principal.mapping.rules": "RULE:^CN=x$/x/"})
    assert contexts.principal(certificate) is None


def test_a_certificate_for_another_name_is_refused_unless_the_settings_allow_it(settings, tmp_path):
    contexts = TlsContexts(settings)
    other = AUTHORITY.issue_cert("elsewhere.test", common_name="another")
    with pytest.raises(ConfigError, match=r"ssl\.allow\.dn\.changes"):
        contexts.reload(stored(tmp_path, other))
    with pytest.raises(ConfigError, match=r"ssl\.allow\.san\.changes"):
        contexts.reload(stored(tmp_path, other, **{"ssl.allow.dn.changes": "true"}))
    contexts.reload(stored(tmp_path, other, **{"ssl.allow.dn.changes": "true", "ssl.allow.san.changes": "true"}))
    assert contexts.context() is not None


def test_a_changed_trust_store_is_read_again_and_an_unchanged_one_is_not(settings, tmp_path):
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(CA_PEM)
    located = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(trusted), "ssl.client.auth": "required"}
    contexts = TlsContexts({**settings, **located})
    assert not contexts.reload_changed()
    trusted.write_text(STRANGER.cert_pem.bytes().decode())
    assert contexts.reload_changed()
    assert not contexts.reload_changed()
    assert handshake(contexts.context(), client_context(STRANGERS_CLIENT))
