"""A worker process for calls that untrusted input can make slow or large, such as compiling a client's schema.

A C library may need minutes or gigabytes for such input, and nothing in the broker's process could stop it.
`pipeline_broker.node.worker_process` starts the process and kills it when a call takes too long.
"""
