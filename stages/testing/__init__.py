"""Tools that test a handler on a whole server without sockets and threads, on a mock clock.

See "Testing a handler of your own" in docs/guides/own-server.md. Nothing here waits for real time, so a seed
reproduces a run.
"""
