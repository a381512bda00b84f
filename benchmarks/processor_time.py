"""The processor time of a process, used by other benchmarks."""

from pathlib import Path

__all__ = ["processor_ns"]


def processor_ns(pid: int) -> int:
    """Return the processor time of all threads in ns: the first field of their schedstat (proc(5))."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text(encoding="ascii").split()[0]) for task in tasks)
