"""Keys and tokens of a test identity provider."""

import base64
import functools
import json

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa

NOW_SECONDS = 1_700_000_000


@functools.cache
def rsa_key(number=0, bits=2048):
    return rsa.generate_private_key(65537, bits)


@functools.cache
def ec_key(number=0):
    return ec.generate_private_key(ec.SECP256R1())


def jwk(key, key_id, **members):
    kind = jwt.algorithms.RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else jwt.algorithms.ECAlgorithm
    return {**kind.to_jwk(key.public_key(), as_dict=True), "kid": key_id, "use": "sig", **members}


def write_keys(path, *keys):
    path.write_text(json.dumps({"keys": list(keys)}))
    return path


def claims(**changes):
    made = {"sub": "alice", "iat": NOW_SECONDS, "exp": NOW_SECONDS + 3600, **changes}
    return {name: value for name, value in made.items() if value is not None}


def token(key=None, algorithm="RS256", headers=None, **changes):
    headers = {"kid": "r"} if headers is None else headers
    payload = json.dumps(claims(**changes)).encode()  # also a malformed one, which jwt.encode would refuse
    return jwt.PyJWS().encode(payload, rsa_key() if key is None else key, algorithm, headers)


def part(content):
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forged(header, signature=b"", **changes):
    return f"{part(header)}.{part(claims(**changes))}.{part(signature)}"


def initial(bearer, *, authorization_id="", pairs=""):
    header = f"n,a={authorization_id}," if authorization_id else "n,,"
    return f"{header}\x01auth=Bearer {bearer}\x01{pairs}\x01".encode()
