"""Turns SIGTERM and SIGINT into a stop that drains, and a second one into a stop at once."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager


class StopSignal:
    """Is what the server waits for.

    Before `armed` there is nothing to drain: the first signal cancels the starting task.
    """

    def __init__(self, task: "asyncio.Task[object]") -> None:
        self._task = task
        self._armed = False
        self.requested = asyncio.Event()
        self.hurried = asyncio.Event()

    def arm(self) -> None:
        """Says that the server is up: from now on a signal asks for a drain."""
        self._armed = True

    def receive(self) -> None:
        """Takes one signal."""
        if self.requested.is_set():
            self.hurried.set()
        self.requested.set()
        if not self._armed:
            self._task.cancel()


@contextmanager
def stop_signal() -> Iterator[StopSignal]:
    """Catches the signals for the current task, which must run in the main thread."""
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("signals are caught for a running task")
    stop, loop = StopSignal(task), asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)
    for number in signals:
        loop.add_signal_handler(number, stop.receive)
    try:
        yield stop
    finally:
        for number in signals:
            loop.remove_signal_handler(number)
