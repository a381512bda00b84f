"""The processor time of a process, for the other scripts here."""

from pathlib import Path

__all__ = ["processor_ns"]


def processor_ns(pid: int) -> int:
    """Nanoseconds that all its threads have had so far (proc(5), schedstat: the first of three figures)."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks)
