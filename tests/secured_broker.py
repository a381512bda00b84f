"""Certificates of a test authority, and settings of a broker with TLS, client certificates and SASL."""

import trustme

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def write_authority(folder):
    """Write certificates by name: `authority`, `client`, `server` for 127.0.0.1, `elsewhere` for another host."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    for name, host in (("client", "client.example"), ("server", "127.0.0.1"), ("elsewhere", "elsewhere.example")):
        authority.issue_cert(host).private_key_and_cert_chain_pem.write_to_path(folder / f"{name}.pem")
    return folder


def secured_settings(authority):
    """Return settings of a broker with TLS, a required client certificate, and SASL with ada and secret."""
    return {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority / "authority.pem"),
        "ssl.client.auth": "required",
        **{f"listener.name.sasl_ssl.{name.lower()}.sasl.jaas.config": _users(name) for name in MECHANISMS},
    }


def _users(mechanism):
    module = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    return f'org.apache.kafka.common.security.{module}LoginModule required user_ada="secret";'
