"""Authentication, authorization and TLS, with the semantics of Apache Kafka.

SASL mechanisms (`plain`, `scram`, `oauthbearer`), users and delegation tokens, ACLs and the authorizer, TLS contexts
and the principals of certificates.

Rules of the package:

* Mechanisms and state machines are sans-IO, and time is passed in. `pem`, `pkcs12` and `tls` read files and run in a
  thread.
* Machines with records follow the rules of `state`.
* Codes and texts for clients are Kafka's. Neither an answer nor its timing reveals whether a user exists.
* A setting that cannot be used is a ConfigError. Its message is one line that names the property and shows no secret.
* Passwords, keys and tokens appear in no `repr`, log line or error.
* Clients and the authors of key files are untrusted, so the cost of each certificate, token, pattern and password has a
  bound.
* PyJWT and cryptography are extras, imported only for a listener that needs them.
"""
