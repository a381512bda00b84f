"""The transaction coordinator: states of transactional ids, their records in `__transaction_state`, and EndTxn.

Counterpart in Kafka: `TransactionCoordinator`, `TransactionStateManager`.
"""
