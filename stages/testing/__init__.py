"""Tools that test a handler on a whole server without sockets, on a mock clock.

See "Test your handler" in docs/guides/own-server.md. Nothing here waits for real time, so a seed
reproduces a run.
"""
