"""The cost of opening an encrypted private key, read from its parameters before OpenSSL spends it.

    EncryptedPrivateKeyInfo = SEQUENCE { SEQUENCE { scheme, parameters }, OCTET STRING }        (RFC 5958)
    parameters of PBES1 and PKCS #12 = SEQUENCE { salt, rounds }
    parameters of PBES2 = SEQUENCE { SEQUENCE { function, its parameters }, SEQUENCE { cipher, ... } }    (RFC 8018)
    parameters of PBKDF2 = SEQUENCE { salt, rounds, ... }
    parameters of scrypt = SEQUENCE { salt, N, r, p, ... }                                      (RFC 7914)

Rules of this file: a scheme that is not known here is refused, since its cost is not known either.
"""

from __future__ import annotations

from pipeline_broker.security.der import INTEGER, SEQUENCE, Place, elements, object_id

__all__ = ["ROUNDS_MAX", "check_cost"]

ROUNDS_MAX = 600_000
"""Of PBKDF2 and its elders: 0.2 s with SHA-256, 0.6 s with SHA-1 and SHA-512. OpenSSL spends them up to four times
where the password is wrong, and a broker that ends waits for the thread."""
SCRYPT_BYTES_MAX = 64 << 20
"""Memory of scrypt, 128 * N * r; OpenSSL allows 32 MiB."""
SCRYPT_WORK_BYTES_MAX = 128 << 20
"""The same times p: 0.4 s."""
NUMBER_BYTES_MAX = 5
PBES2, PBKDF2, SCRYPT = "1.2.840.113549.1.5.13", "1.2.840.113549.1.5.12", "1.3.6.1.4.1.11591.4.11"
PBES1 = frozenset(f"1.2.840.113549.1.5.{number}" for number in (1, 3, 4, 6, 10, 11))
PKCS12 = frozenset(f"1.2.840.113549.1.12.1.{number}" for number in range(1, 7))


def check_cost(key: bytes) -> None:
    """Refuse a key, in DER form, whose password takes long to try.

    Raises:
        ValueError: it takes too long, or the cost cannot be read; the message says which.
    """
    outer = _sequence(key, (SEQUENCE, 0, len(key)), 1)[0]
    scheme, parameters = _algorithm(key, _sequence(key, outer, 2)[0])
    if scheme == PBES2:
        scheme, parameters = _algorithm(key, _sequence(key, parameters, 2)[0])
        if scheme == SCRYPT:
            _check_scrypt(key, parameters)
            return
        is_known = scheme == PBKDF2
    else:
        is_known = scheme in PBES1 | PKCS12
    if not is_known:
        raise ValueError(f"its encryption, {scheme}, is not one of PBKDF2, scrypt, PBES1 and PKCS #12")
    rounds = _number(key, _sequence(key, parameters, 2)[1])
    if rounds > ROUNDS_MAX:
        raise ValueError(f"its password takes {rounds} rounds, and {ROUNDS_MAX} are allowed")


def _check_scrypt(key: bytes, parameters: Place) -> None:
    n, r, p = (_number(key, place) for place in _sequence(key, parameters, 4)[1:4])
    memory_bytes = 128 * n * r
    if memory_bytes > SCRYPT_BYTES_MAX or memory_bytes * p > SCRYPT_WORK_BYTES_MAX:
        raise ValueError(
            f"its password takes scrypt with N={n}, r={r}, p={p}; 128*N*r may be {SCRYPT_BYTES_MAX}, and that times p"
            f" {SCRYPT_WORK_BYTES_MAX}"
        )


def _sequence(key: bytes, place: Place, count: int) -> list[Place]:
    """Return the elements of a sequence, at least `count`."""
    tag, start, end = place
    found = list(elements(key, start, end))
    if tag != SEQUENCE or len(found) < count:
        raise ValueError("it is damaged")
    return found


def _algorithm(key: bytes, place: Place) -> tuple[str, Place]:
    kind, parameters = _sequence(key, place, 2)[:2]
    return object_id(key, *kind), parameters


def _number(key: bytes, place: Place) -> int:
    tag, start, end = place
    if tag != INTEGER or not 0 < end - start <= NUMBER_BYTES_MAX or key[start] & 0x80:
        raise ValueError("its number of rounds cannot be read")
    return int.from_bytes(key[start:end])
