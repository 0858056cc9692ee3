import asyncio

from streams.clock import Clock, SystemClock


async def test_system_clock_never_goes_back_and_lets_others_run_while_it_waits() -> None:
    clock: Clock = SystemClock()
    order: list[str] = []

    async def other() -> None:
        order.append("other")

    task = asyncio.create_task(other())
    before_s = clock.now_s()
    await clock.sleep(0)
    order.append("woken")
    assert clock.now_s() >= before_s
    assert order == ["other", "woken"]
    await task
