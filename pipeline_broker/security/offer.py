"""The SASL mechanisms of a listener, with their users and limits, from its properties.

Errors are found at startup. A mechanism with which no client could log in is refused. A setting never loads code: a
callback handler is accepted only if it is Kafka's own, which this broker implements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import attrs

from pipeline_broker.base.numbers import whole_number
from pipeline_broker.config.properties import ConfigError
from pipeline_broker.security.jaas import JaasEntry, parse_jaas, users_of
from pipeline_broker.security.oauthbearer import OAUTHBEARER, OAuthBearerServer
from pipeline_broker.security.plain import PLAIN, PlainServer, PlainUsers
from pipeline_broker.security.sasl import SaslServer
from pipeline_broker.security.scram import (
    SCRAM_MECHANISMS,
    ScramCredential,
    ScramMechanism,
    ScramServer,
    TokenLogin,
    salted_password,
)
from pipeline_broker.security.scram_users import ScramUsers

__all__ = ["SaslOffer", "read_offer"]

# Kafka's default of `sasl.server.max.receive.size`.
RECEIVE_BYTES_MAX = 524288
MODULES = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    OAUTHBEARER: "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    **dict.fromkeys(SCRAM_MECHANISMS, "org.apache.kafka.common.security.scram.ScramLoginModule"),
}
# SCRAM users in one JAAS line. Each takes up to 16,384 hashes or 15 ms, and the broker's shutdown waits for them.
LINE_USERS_MAX = 250
"""SCRAM users in a JAAS line."""
# Kafka's default mechanism, which this broker does not support.
KERBEROS = "GSSAPI"
CALLBACK_HANDLERS = {
    PLAIN: ("org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler",),
    OAUTHBEARER: (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
    ),
}


@attrs.frozen(kw_only=True)
class SaslOffer:
    """The SASL mechanisms of one listener.

    Attributes:
        servers: by mechanism, a function that starts a conversation.
        lifetimes_ms_max: by mechanism, the longest session before re-authentication; 0 for no limit.
        frame_bytes_max: the largest frame from a client that is not authenticated.
    """

    servers: Mapping[str, Callable[[], SaslServer]]
    lifetimes_ms_max: Mapping[str, int]
    frame_bytes_max: int = RECEIVE_BYTES_MAX

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return tuple(self.servers)


def read_offer(
    settings: Mapping[str, str], scram_users: ScramUsers, clock_ms: Callable[[], int], prefix: str = ""
) -> SaslOffer:
    """Return the mechanisms of a listener with these properties.

    Args:
        settings: the listener's effective properties, without its prefix. Those of a mechanism begin with its name in
            lower case.
        scram_users: the users with records.
        clock_ms: wall clock, milliseconds since the epoch.
        prefix: the listener's prefix of the mechanism's own properties, for errors.

    Raises:
        ConfigError: a property is missing or cannot be used, or a file that it names cannot be used.
    """
    mechanisms = [item for item in map(str.strip, settings.get("sasl.enabled.mechanisms", KERBEROS).split(",")) if item]
    servers: dict[str, Callable[[], SaslServer]] = {}
    for mechanism in mechanisms:
        if mechanism not in MODULES:
            raise _not_offered(mechanism)
        _check_callback_handler(mechanism, settings, prefix)
        entry = _jaas_entry(mechanism, settings, prefix)
        if mechanism == PLAIN:
            servers[mechanism] = _plain(entry, prefix)
        elif mechanism == OAUTHBEARER:
            servers[mechanism] = _oauthbearer(settings, clock_ms)
        else:
            users = {} if entry is None else users_of(entry)
            if len(users) > LINE_USERS_MAX:
                raise ConfigError(
                    f"{prefix}{_own(mechanism, 'sasl.jaas.config')}: it has {len(users)} users, but at most"
                    f" {LINE_USERS_MAX} are allowed. Create the others with kafka-configs.sh --entity-type users"
                )
            servers[mechanism] = _ScramServers(SCRAM_MECHANISMS[mechanism], scram_users, users, clock_ms)
    if not servers:
        raise ConfigError(f"sasl.enabled.mechanisms: the list is empty. Add one of {', '.join(MODULES)}")
    lifetimes = {mechanism: _lifetime_ms_max(mechanism, settings) for mechanism in servers}
    size_bytes = _integer(settings, "sasl.server.max.receive.size", RECEIVE_BYTES_MAX)
    if size_bytes < 1:
        raise ConfigError("sasl.server.max.receive.size: must be at least 1")
    return SaslOffer(servers=servers, lifetimes_ms_max=lifetimes, frame_bytes_max=size_bytes)


def _not_offered(mechanism: str) -> ConfigError:
    # Kerberos is the default, so the user may never have written its name.
    if mechanism == KERBEROS:
        text = f"set it to one or more of {', '.join(MODULES)}: Kafka's default, {KERBEROS}, is not offered"
    else:
        text = f"{mechanism!r} is not one of {', '.join(MODULES)}"
    return ConfigError(f"sasl.enabled.mechanisms: {text}")


def _own(mechanism: str, name: str) -> str:
    return f"{mechanism.lower()}.{name}"


def _check_callback_handler(mechanism: str, settings: Mapping[str, str], prefix: str) -> None:
    name = _own(mechanism, "sasl.server.callback.handler.class")
    handler = settings.get(name)
    known = CALLBACK_HANDLERS.get(mechanism, ())
    if handler and handler not in known:
        raise ConfigError(
            f"{prefix}{name}: {handler} is not supported. " + (f"Use {known[0]}" if known else "Remove it")
        )


def _jaas_entry(mechanism: str, settings: Mapping[str, str], prefix: str) -> JaasEntry | None:
    name = _own(mechanism, "sasl.jaas.config")
    text = settings.get(name)
    if not text:
        return None
    try:
        return parse_jaas(text, MODULES[mechanism])
    except ConfigError as error:
        raise ConfigError(f"{prefix}{name}: {error}") from None


def _plain(entry: JaasEntry | None, prefix: str) -> Callable[[], SaslServer]:
    passwords = {} if entry is None else users_of(entry)
    name = f"{prefix}{_own(PLAIN, 'sasl.jaas.config')}"
    if not passwords:
        raise ConfigError(f'PLAIN needs users. Set {name}={MODULES[PLAIN]} required user_NAME="PASSWORD";')
    if not all(passwords.values()):
        raise ConfigError(f"{name}: no password may be empty")
    users = PlainUsers(passwords)
    return lambda: PlainServer(users)


def _oauthbearer(settings: Mapping[str, str], clock_ms: Callable[[], int]) -> Callable[[], SaslServer]:
    try:
        from pipeline_broker.security.signed_tokens import (  # noqa: PLC0415 - it needs the packages of an extra
            JWKS_URL,
            KeyFile,
            TokenRules,
            TokenValidator,
            key_file_path,
        )
    except ImportError:
        raise ConfigError(
            "OAUTHBEARER needs PyJWT with cryptography. Run pip install 'pipeline-broker[oauth]'"
        ) from None
    url = _mechanism_value(settings, OAUTHBEARER, JWKS_URL)
    if not url:
        raise ConfigError(f"OAUTHBEARER needs keys to verify signatures. Set {JWKS_URL}=file:///path/jwks.json")
    keys = KeyFile(key_file_path(url))
    issuer, audience = _expected(settings, "issuer"), _expected(settings, "audience")
    skew_name = "sasl.oauthbearer.clock.skew.seconds"
    skew_text = _mechanism_value(settings, OAUTHBEARER, skew_name)
    skew_seconds = 30 if skew_text is None else _integer({skew_name: skew_text}, skew_name, 0)
    if skew_seconds < 0:
        raise ConfigError(f"{skew_name}: must be at least 0")
    rules = TokenRules(
        expected_issuer=issuer or None,
        expected_audience=frozenset(item for item in map(str.strip, audience.split(",")) if item),
        clock_skew_seconds=skew_seconds,
        sub_claim_name=_mechanism_value(settings, OAUTHBEARER, "sasl.oauthbearer.sub.claim.name") or "sub",
        scope_claim_name=_mechanism_value(settings, OAUTHBEARER, "sasl.oauthbearer.scope.claim.name") or "scope",
    )
    validator = TokenValidator(keys, rules, clock_ms)
    return lambda: OAuthBearerServer(validator.validate)


def _expected(settings: Mapping[str, str], claim: str) -> str:
    # As in Kafka, a broker accepts tokens of any issuer or for any audience only if its settings say so.
    name, waiver = f"sasl.oauthbearer.expected.{claim}", f"sasl.oauthbearer.allow.unverified.{claim}"
    expected = _mechanism_value(settings, OAUTHBEARER, name) or ""
    if not expected and (_mechanism_value(settings, OAUTHBEARER, waiver) or "").strip().lower() != "true":
        raise ConfigError(f"OAUTHBEARER would accept tokens with any {claim}. Set {name}, or {waiver}=true")
    return expected


def _mechanism_value(settings: Mapping[str, str], mechanism: str, name: str) -> str | None:
    return settings.get(_own(mechanism, name), settings.get(name))


def _lifetime_ms_max(mechanism: str, settings: Mapping[str, str]) -> int:
    name = "connections.max.reauth.ms"
    own = _own(mechanism, name)
    return max(0, _integer(settings, own if own in settings else name, 0))


def _integer(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name)
    number = default if text is None else whole_number(text.strip())
    if number is None:
        raise ConfigError(f"{name}: must be a whole number")
    return number


class _ScramServers:
    """A starter of conversations of one SCRAM mechanism.

    Users of the JAAS line take precedence over those with records.
    """

    def __init__(
        self, mechanism: ScramMechanism, users: ScramUsers, passwords: Mapping[str, str], clock_ms: Callable[[], int]
    ) -> None:
        self._mechanism = mechanism
        self._users = users
        self._passwords = passwords
        self._clock_ms = clock_ms
        self._made: dict[str, ScramCredential] = {}
        for name in passwords:
            self._credential_of(name)  # hash now, in a thread, not on the event loop at the first login

    def __call__(self) -> SaslServer:
        return ScramServer(self._mechanism, self._credential_of, self._login_of)

    def _login_of(self, token_id: str) -> TokenLogin | None:
        tokens = self._users.tokens
        return None if tokens is None else tokens.login(self._mechanism, token_id, self._clock_ms())

    def _credential_of(self, name: str) -> ScramCredential:
        # A user of the line gets the salt and iterations of an unknown user, so that a client cannot tell them apart.
        recorded = self._users.credential(self._mechanism, name)
        salt, iterations = self._users.parameters(self._mechanism, name)  # for every name, to take the same time
        password = self._passwords.get(name)
        if password is None:
            return recorded
        made = self._made.get(name)
        if made is None or (made.salt, made.iterations) != (salt, iterations):
            salted = salted_password(self._mechanism, password, salt, iterations)
            made = self._made[name] = ScramCredential.of(self._mechanism, salt, iterations, salted)
        return made
