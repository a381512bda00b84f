"""The cost of decrypting a private key, read from its parameters before OpenSSL spends it.

    EncryptedPrivateKeyInfo = SEQUENCE { SEQUENCE { scheme, parameters }, OCTET STRING }        (RFC 5958)
    parameters of PBES1 and PKCS #12 = SEQUENCE { salt, rounds }
    parameters of PBES2 = SEQUENCE { SEQUENCE { function, its parameters }, SEQUENCE { cipher, ... } }    (RFC 8018)
    parameters of PBKDF2 = SEQUENCE { salt, rounds, ... }
    parameters of scrypt = SEQUENCE { salt, N, r, p, ... }                                      (RFC 7914)

An unknown scheme is refused, because its cost is unknown.
"""

from __future__ import annotations

from pipeline_broker.security.der import INTEGER, SEQUENCE, Element, object_id, sequence

__all__ = ["ROUNDS_MAX", "algorithm", "check_cost", "number", "rounds_of", "rounds_of_function"]

ROUNDS_MAX = 600_000
"""Hash rounds of PBKDF2 and older functions: 0.2 s with SHA-256, 0.6 s with SHA-1 and SHA-512. With a wrong password
OpenSSL computes them up to four times, and the broker's shutdown waits for that thread.
"""
# Memory of scrypt, 128 * N * r. OpenSSL's own limit is 32 MiB.
SCRYPT_BYTES_MAX = 64 << 20
"""Memory of scrypt for a private key."""
# Memory times p: 0.4 s.
SCRYPT_WORK_BYTES_MAX = 128 << 20
"""Memory of scrypt times its parallelism: 0.4 s."""
NUMBER_BYTES_MAX = 5
PBES2, PBKDF2, SCRYPT = "1.2.840.113549.1.5.13", "1.2.840.113549.1.5.12", "1.3.6.1.4.1.11591.4.11"
PBES1 = frozenset(f"1.2.840.113549.1.5.{number}" for number in (1, 3, 4, 6, 10, 11))
PKCS12 = frozenset(f"1.2.840.113549.1.12.1.{number}" for number in range(1, 7))


def check_cost(key: bytes) -> None:
    """Refuse an encrypted key in DER form that takes too long to decrypt.

    Raises:
        ValueError: the cost is too high or cannot be read; the message says which.
    """
    outer = sequence(key, (SEQUENCE, 0, len(key)), 1)[0]
    rounds = rounds_of(key, sequence(key, outer, 2)[0])
    if rounds > ROUNDS_MAX:
        raise ValueError(f"its password needs {rounds} rounds, but at most {ROUNDS_MAX} are allowed")


def rounds_of(key: bytes, element: Element) -> int:
    """Return the hash rounds of a password-based encryption. Scrypt has none and counts as ROUNDS_MAX.

    Raises:
        ValueError: the cost of scrypt is too high, or the scheme is unknown or cannot be read; the message says which.
    """
    scheme, parameters = algorithm(key, element)
    if scheme == PBES2:
        return rounds_of_function(key, sequence(key, parameters, 2)[0])
    if scheme not in PBES1 | PKCS12:
        raise _unknown(scheme)
    return number(key, sequence(key, parameters, 2)[1])


def rounds_of_function(key: bytes, element: Element) -> int:
    function, parameters = algorithm(key, element)
    if function == SCRYPT:
        _check_scrypt(key, parameters)
        return ROUNDS_MAX
    if function != PBKDF2:
        raise _unknown(function)
    return number(key, sequence(key, parameters, 2)[1])


def _unknown(scheme: str) -> ValueError:
    return ValueError(f"its encryption, {scheme}, is not one of PBKDF2, scrypt, PBES1 and PKCS #12")


def _check_scrypt(key: bytes, parameters: Element) -> None:
    n, r, p = (number(key, each) for each in sequence(key, parameters, 4)[1:4])
    memory_bytes = 128 * n * r
    if memory_bytes > SCRYPT_BYTES_MAX or memory_bytes * p > SCRYPT_WORK_BYTES_MAX:
        raise ValueError(
            f"its password needs scrypt with N={n}, r={r}, p={p}; 128*N*r may be at most {SCRYPT_BYTES_MAX}, and"
            f" 128*N*r*p at most {SCRYPT_WORK_BYTES_MAX}"
        )


def algorithm(key: bytes, element: Element) -> tuple[str, Element]:
    """Return the object id of an algorithm, and its parameters.

    Raises:
        ValueError: the element is not an algorithm with parameters.
    """
    kind, parameters = sequence(key, element, 2)[:2]
    return object_id(key, *kind), parameters


def number(key: bytes, element: Element) -> int:
    """Decode a non-negative INTEGER element.

    Raises:
        ValueError: it has another type, is negative, or is longer than NUMBER_BYTES_MAX.
    """
    tag, start, end = element
    if tag != INTEGER or not 0 < end - start <= NUMBER_BYTES_MAX or key[start] & 0x80:
        raise ValueError("its number of rounds cannot be read")
    return int.from_bytes(key[start:end])
