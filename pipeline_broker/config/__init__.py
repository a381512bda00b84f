"""What may be configured, under Kafka's names: the lowest room.

Imports nothing of ours and no Trio. `properties` knows the names, `settings` what this broker acts on,
`sources` where settings are written, `resolution` which of several settings counts.
"""
