import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from grpc_health.v1 import (  # type: ignore[import-untyped]  # as above
    health_pb2,
    health_pb2_grpc,
)

from protocols.health.server import HealthServer

STATES = health_pb2.HealthCheckResponse


async def test_health_follows_readiness_until_the_end() -> None:
    server = HealthServer("127.0.0.1:0")
    port = await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        async def status() -> int:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
            return int(answer.status)

        assert await status() == STATES.NOT_SERVING
        await server.set_ready(True)
        assert await status() == STATES.SERVING
        await server.set_ready(False)
        assert await status() == STATES.NOT_SERVING
        await server.set_ready(True)
        watch = stub.Watch(health_pb2.HealthCheckRequest(), timeout=10)
        assert (await watch.read()).status == STATES.SERVING
        await server.stop(grace_s=0.1)
        assert (await watch.read()).status == STATES.NOT_SERVING


async def test_stop_before_start_and_twice_does_nothing() -> None:
    server = HealthServer("127.0.0.1:0")
    await server.stop()
    await server.start()
    await server.stop(0)
    await server.stop(0)
