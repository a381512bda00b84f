"""Small tools without dependencies on the broker: patterns, numbers, JSON, addresses, byte budgets, work in steps.

Most of them bound the cost of data that clients send.
"""
