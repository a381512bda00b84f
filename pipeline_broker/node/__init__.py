"""A broker as a process: its start and end, its listeners, and the tasks that run beside its server on Trio."""
