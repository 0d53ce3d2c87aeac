"""How many pixels are in progress at a time."""

from __future__ import annotations

import asyncio

from imgproc_local.engine.runner import PixelBudget


async def test_never_more_than_the_limit_and_everyone_gets_his_turn() -> None:
    budget, taken, most, order = PixelBudget(10), 0, 0, []

    async def work(name: int, pixels: int) -> None:
        nonlocal taken, most
        async with budget.acquired(pixels):
            taken += min(pixels, 10)
            most = max(most, taken)
            order.append(name)
            await asyncio.sleep(0.001)
            taken -= min(pixels, 10)

    sizes = [4, 4, 4, 10, 1, 25, 3, 3, 3, 3]
    async with asyncio.timeout(5):
        await asyncio.gather(*(work(name, pixels) for name, pixels in enumerate(sizes)))
    assert most <= 10
    assert order == sorted(order), "first come, first served: a large picture is not overtaken for ever"
