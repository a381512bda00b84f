"""Cipher suites: Java's names, which Kafka's settings use, and OpenSSL's names.

Python's `ssl` cannot choose single suites of TLS 1.3, so a setting must list all of them or none.
"""

from __future__ import annotations

from collections.abc import Sequence

from pipeline_broker.config.properties import ConfigError

__all__ = ["TLS_13_SUITES", "openssl_names"]

TLS_13_SUITES = frozenset({"TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"})
# The suites of TLS 1.2 that have forward secrecy and authentication.
OPENSSL_NAMES = {
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384": "ECDHE-ECDSA-AES256-GCM-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256": "ECDHE-ECDSA-AES128-GCM-SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384": "ECDHE-RSA-AES256-GCM-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-RSA-CHACHA20-POLY1305",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA384": "ECDHE-ECDSA-AES256-SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256": "ECDHE-ECDSA-AES128-SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256": "ECDHE-RSA-AES128-SHA256",
}


def openssl_names(suites: Sequence[str]) -> list[str]:
    """Return OpenSSL's names of the listed suites of TLS 1.2.

    Raises:
        ConfigError: a suite is unknown, or only some suites of TLS 1.3 are listed.
    """
    unknown = [suite for suite in suites if suite not in OPENSSL_NAMES and suite not in TLS_13_SUITES]
    if unknown:
        raise ConfigError(
            f"ssl.cipher.suites: {unknown[0]!r} is not one of {', '.join([*sorted(TLS_13_SUITES), *OPENSSL_NAMES])}"
        )
    missing = TLS_13_SUITES.difference(suites)
    if missing and len(missing) < len(TLS_13_SUITES):
        raise ConfigError(
            "ssl.cipher.suites: the suites of TLS 1.3 can only be enabled together. Add"
            f" {', '.join(sorted(missing))}, or list none of them"
        )
    return [OPENSSL_NAMES[suite] for suite in suites if suite in OPENSSL_NAMES]
