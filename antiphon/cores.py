"""How many cores this process has, and how many of them the engines take."""

import os


def usable_cores() -> int:
    """Returns the cores that this process may run on (honours taskset and cpusets)."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def engine_threads(configured: int | None) -> int:
    """Returns the threads of a step: as configured, or all cores but one.

    A step's threads wait for the slowest of them at every barrier. Where they share a core
    with the gateway or anybody else, each barrier waits for a time slice: on two cores,
    two threads made a decode step up to sixty times slower than one thread did.
    """
    return configured or max(1, usable_cores() - 1)
