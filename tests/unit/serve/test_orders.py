import asyncio
from datetime import timedelta

from tests.support.operator.fake_api_server import Clock

from holdfast.core.decision import Order
from holdfast.serve.orders import OrderBoard
from holdfast_protocol import orders as protocol


def board() -> tuple[OrderBoard, Clock]:
    clock = Clock()
    return OrderBoard(clock.now, clock), clock


def order(number: int, pod: str = "p1", seconds: float | None = None, clock: Clock | None = None) -> Order:
    deadline = clock.now() + timedelta(seconds=seconds) if clock and seconds is not None else None
    return Order(number, "drain", pod, deadline, "spot notice")


def test_only_newer_orders_are_shown_and_seconds_left_run_down() -> None:
    orders, clock = board()
    orders.replace("u1", (order(2, seconds=30, clock=clock), order(1)))
    clock.tick(10)
    assert [one.id for one in orders.open_for("p1")] == [1, 2]
    (shown,) = orders.open_for("p1", after=1)
    assert shown == protocol.Order(2, "drain", 20.0, "spot notice")
    clock.tick(100)
    assert orders.open_for("p1", after=1)[0].seconds_left == 0.0


def test_what_is_not_there_any_more_is_withdrawn() -> None:
    orders, _ = board()
    orders.replace("u1", (order(1), order(2, "p2")))
    orders.replace("u2", (order(1, "p3"),))
    orders.replace("u1", (order(2, "p2"),))
    assert orders.open_for("p1") == ()
    assert orders.open_for("p2")
    orders.keep_only(["u1"])
    assert orders.open_for("p3") == ()


def test_an_offer_is_beside_what_is_open_until_it_is_replaced() -> None:
    orders, _ = board()
    orders.replace("u1", (order(1),))
    orders.offer("u1", (order(2),))
    orders.offer("u1", (order(2),))
    assert [one.id for one in orders.open_for("p1")] == [1, 2]
    orders.replace("u1", (order(2),))
    assert [one.id for one in orders.open_for("p1")] == [2]


async def test_a_waiting_pod_gets_a_new_order_at_once() -> None:
    orders, _ = board()
    waiter = asyncio.ensure_future(orders.wait("p1", 0, 30))
    await asyncio.sleep(0)
    assert orders.waiting == 1
    orders.replace("u1", (order(1),))
    async with asyncio.timeout(1):
        assert [one.id for one in await waiter] == [1]
    assert orders.waiting == 0


async def test_an_order_that_the_pod_knows_ends_no_long_poll() -> None:
    orders, _ = board()
    orders.replace("u1", (order(1),))
    waiter = asyncio.ensure_future(orders.wait("p1", 1, 30))
    await asyncio.sleep(0)
    orders.replace("u1", (order(1),))
    await asyncio.sleep(0)
    assert not waiter.done()
    orders.replace("u1", (order(1), order(2)))
    assert [one.id for one in await waiter] == [2]


async def test_the_wait_ends_empty_and_leaves_nothing_behind() -> None:
    orders, _ = board()
    assert await orders.wait("p1", 0, 0.01) == ()
    assert await orders.wait("p1", 0, 0) == ()
    waiter = asyncio.ensure_future(orders.wait("p1", 0, 30))
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.wait([waiter])
    assert orders.waiting == 0


def test_delivery_is_measured_once_an_order() -> None:
    orders, clock = board()
    seen: list[tuple[str, float]] = []
    orders.delivered = lambda kind, seconds: seen.append((kind, seconds))
    orders.replace("u1", (order(1),))
    clock.tick(2)
    orders.open_for("p1")
    orders.replace("u1", (order(1),))
    orders.open_for("p1")
    assert seen == [("drain", 2.0)]
