import asyncio

from streams.handover import Handover
from tests.support.clock import settle


async def test_items_come_out_in_the_order_they_went_in_and_then_the_end() -> None:
    queue: Handover[int] = Handover(3)
    for number in (1, 2, 3):
        assert await queue.put(number)
    queue.close()
    assert [number async for number in queue] == [1, 2, 3]
    assert [number async for number in queue] == []


async def test_giver_waits_while_the_queue_is_full_and_goes_on_after_one_is_taken() -> None:
    queue: Handover[str] = Handover(1)
    await queue.put("a")
    second = asyncio.create_task(queue.put("b"))
    await settle()
    assert not second.done()
    assert await anext(queue) == "a"
    await settle()
    assert second.done() and second.result()
    assert await anext(queue) == "b"


async def test_several_givers_never_overfill_the_queue() -> None:
    queue: Handover[int] = Handover(2)
    givers = [asyncio.create_task(queue.put(number)) for number in range(5)]
    await settle()
    assert sum(giver.done() for giver in givers) == 2
    taken = [await anext(queue) for _ in range(5)]
    assert sorted(taken) == [0, 1, 2, 3, 4]
    await asyncio.gather(*givers)


async def test_taker_waits_for_the_first_item() -> None:
    queue: Handover[int] = Handover(1)
    taker = asyncio.create_task(anext(queue))
    await settle()
    assert not taker.done()
    await queue.put(7)
    assert await taker == 7


async def test_close_wakes_a_waiting_taker_with_the_end() -> None:
    queue: Handover[int] = Handover(1)
    taker = asyncio.create_task(anext(queue, None))
    await settle()
    queue.close()
    assert await taker is None


async def test_close_wakes_a_waiting_giver_whose_item_is_dropped() -> None:
    queue: Handover[int] = Handover(1)
    await queue.put(1)
    giver = asyncio.create_task(queue.put(2))
    await settle()
    queue.close()
    assert await giver is False
    assert [number async for number in queue] == [1]


async def test_nothing_goes_into_a_closed_queue_and_closing_again_changes_nothing() -> None:
    queue: Handover[int] = Handover(1)
    queue.close()
    queue.close()
    assert await queue.put(1) is False
    assert await anext(queue, None) is None
