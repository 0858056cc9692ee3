import asyncio
import os
import signal

import pytest

from antiphon.stop_signal import stop_signal


async def receive(number: signal.Signals) -> None:
    """Gets a real signal from ourselves and lets the loop see it."""
    os.kill(os.getpid(), number)
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_first_signal_asks_for_a_stop_and_the_second_hurries_it(
    number: signal.Signals,
) -> None:
    with stop_signal() as stop:
        stop.arm()
        assert not stop.requested.is_set()
        await receive(number)
        assert stop.requested.is_set()
        assert not stop.hurried.is_set()
        await receive(number)
        assert stop.hurried.is_set()


async def test_signal_before_the_server_is_up_cancels_its_start() -> None:
    reached = []

    async def start() -> None:
        with stop_signal() as stop:
            try:
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.Event().wait()
            finally:
                reached.append(stop.requested.is_set())

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(start())
    assert reached == [True]


async def test_handlers_are_gone_after_the_block() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stop_signal():
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
