"""gRPC's standard health service (`grpc.health.v1`), for probes and load balancers."""

import grpc  # type: ignore[import-untyped]  # grpcio ships no types
from grpc_health.v1 import (  # type: ignore[import-untyped]  # as above
    health,
    health_pb2,
    health_pb2_grpc,
)


class HealthServer:
    """Answers `Check` and `Watch`; not serving until it is told that the server is ready.

    Args:
        address: host and port; port 0 takes a free one.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._service = health.aio.HealthServicer()
        self._server: grpc.aio.Server | None = None

    async def start(self) -> int:
        """Binds and serves; returns the port.

        Raises:
            RuntimeError: the address cannot be bound.
        """
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        health_pb2_grpc.add_HealthServicer_to_server(self._service, server)
        await self.set_ready(False)
        port = server.add_insecure_port(self._address)
        await server.start()
        self._server = server
        return int(port)

    async def set_ready(self, ready: bool) -> None:
        """Follows the server's readiness."""
        states = health_pb2.HealthCheckResponse
        status = states.SERVING if ready else states.NOT_SERVING
        await self._service.set(health.OVERALL_HEALTH, status)

    async def stop(self, grace_s: float = 1.0) -> None:
        """Says that it serves no more, gives running calls some time, and ends."""
        if self._server is None:
            return
        await self._service.enter_graceful_shutdown()
        await self._server.stop(grace_s)
        self._server = None
