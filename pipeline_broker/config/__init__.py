"""Configuration under Kafka's names: property definitions, sources of settings, checks, and precedence.

`properties` reads the table of definitions and `sources` reads files and arguments. `settings` makes a `BrokerConfig`
of them. `changes` and `reconfiguration` check changes to a running broker. `resolution` decides which of several
settings applies.

Rules of the package:

* A property is defined once, in `properties.txt`. Typed views of it are `BrokerConfig`, `TopicSettings`,
  `ConsumerGroupSettings` and `ShareGroupSettings`.
* Settings are mappings of Kafka's names to Kafka's texts. No public function modifies a mapping that it receives.
* A `ConfigError` has one line for the operator, with the property and the value, and Kafka's own text for clients.
* No error, warning or description shows the value of a secret.
* Most startups need few settings, so parsers load on first use.
* Modules here import neither Trio nor a package that serves requests.
"""
