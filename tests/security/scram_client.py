"""An independent SCRAM client, written from RFC 5802. It shares no code with the server."""

import base64
import hashlib
import hmac


def escape(name):
    return name.replace("=", "=3D").replace(",", "=2C")


def xor(left, right):
    return (int.from_bytes(left) ^ int.from_bytes(right)).to_bytes(len(left))


class ScramClient:
    def __init__(self, hash_name, user, password, *, header="n,,", extensions="", nonce="fyko+d2lbbFgONRv9qkxdawL"):
        self.hash_name = hash_name
        self.password = password.encode()
        self.header = header
        self.nonce = nonce
        self.bare = f"n={escape(user)},r={nonce}{extensions}"

    def first(self):
        return (self.header + self.bare).encode()

    def hmac(self, key, text):
        return hmac.new(key, text, self.hash_name).digest()

    def final(self, server_first, *, nonce=None, binding=None, extensions="", proof=None):
        fields = dict(field.split("=", 1) for field in server_first.decode().split(","))
        assert fields["r"].startswith(self.nonce)
        assert len(fields["r"]) > len(self.nonce)
        self.salt, self.iterations = base64.b64decode(fields["s"]), int(fields["i"])
        salted = hashlib.pbkdf2_hmac(self.hash_name, self.password, self.salt, self.iterations)
        binding = base64.b64encode((self.header if binding is None else binding).encode()).decode()
        without_proof = f"c={binding},r={nonce or fields['r']}{extensions}"
        said = f"{self.bare},{server_first.decode()},{without_proof}".encode()
        client_key = self.hmac(salted, b"Client Key")
        signature = self.hmac(hashlib.new(self.hash_name, client_key).digest(), said)
        self.signature = self.hmac(self.hmac(salted, b"Server Key"), said)
        made = xor(client_key, signature) if proof is None else proof
        return f"{without_proof},p={base64.b64encode(made).decode()}".encode()

    def accepts(self, server_final):
        return server_final == b"v=" + base64.b64encode(self.signature)
