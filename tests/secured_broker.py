"""Certificates of an authority of our own, and the settings of a broker that wants all that there is to want."""

import trustme

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def write_authority(folder):
    """Certificates by name: `authority`, `client`, `server` of 127.0.0.1, `elsewhere` of another host."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "authority.pem")
    for name, host in (("client", "client.example"), ("server", "127.0.0.1"), ("elsewhere", "elsewhere.example")):
        authority.issue_cert(host).private_key_and_cert_chain_pem.write_to_path(folder / f"{name}.pem")
    return folder


def secured_settings(authority):
    """Of a broker that speaks TLS, wants a certificate of the client and a proof of its name: ada, secret."""
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
