"""The comparison of modes: brokers, rounds, raw rows, the table."""
