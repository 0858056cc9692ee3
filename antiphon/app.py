"""Puts the server together and runs it: listen, load, warm up, serve, drain, stop.

HTTP listens before the models are loaded, so that `/healthz` answers and a taken port is
found at once; `/readyz` and sessions follow when every engine has run once.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request

from antiphon.commands.models import open_store
from antiphon.config import Config
from antiphon.doors import access_of, protocol_settings
from antiphon.embedded import Role, embedded, ensure_models, warm_up
from antiphon.gateway import Gateway
from antiphon.health_routes import health_routes
from antiphon.http_server import bind, http_server
from antiphon.metrics import Metrics
from antiphon.stop_signal import StopSignal, stop_signal
from antiphon.web_routes import web_routes
from asr.whisper_tokens import WhisperTokens
from engines.errors import BadRequest, EngineFailed, Unauthorized
from protocols.auth import Access, credentials
from protocols.health.server import HealthServer
from protocols.server import protocol_routes
from streams.clock import SystemClock
from streams.context import Services
from streams.sessions import SessionManager

log = logging.getLogger(__name__)

WhenReady = Callable[[Config], None]


async def serve(config: Config, when_ready: WhenReady) -> int:
    """Runs the server until SIGTERM or SIGINT; a second signal skips the drain.

    Args:
        config: the effective configuration.
        when_ready: called once with the configuration, the ports being those really bound.

    Returns:
        Exit status: 0 after a clean stop.

    Raises:
        AntiphonError: a model is missing or damaged, or a port is taken.
    """
    with stop_signal() as stop:
        try:
            await _serve(config, when_ready, stop)
        except asyncio.CancelledError:
            if not stop.requested.is_set():
                raise
            log.info("stopped before the server was ready")
    return 0


async def _serve(config: Config, when_ready: WhenReady, stop: StopSignal) -> None:
    gateway, metrics = Gateway(), Metrics()
    with bind(config.server.host, config.server.port) as listener:
        config = _bound(config, port=listener.getsockname()[1])
        app = build_app(config, gateway, metrics)
        async with http_server(app, listener, config.server) as http, _grpc(config) as grpc:
            health, grpc_port = grpc
            roles = tuple(Role)
            store = open_store(config)
            folders = await asyncio.to_thread(ensure_models, config, store, roles)
            languages = WhisperTokens(folders[Role.ASR]).languages
            settings = protocol_settings(config, languages)
            app.router.routes.extend(protocol_routes(gateway, settings, metrics.dropped))
            async with embedded(config, folders) as engines:
                pipelines = engines.pipelines()
                await warm_up(pipelines)
                for name, stats in engines.stats().items():
                    metrics.watch_engine(name, stats)
                services = Services(pipelines, config.sessions.limits, SystemClock(), metrics)
                manager = SessionManager(services, config.sessions.admission)
                gateway.serve(manager)
                await health.set_ready(True)
                stop.arm()
                when_ready(_bound(config, grpc_port=grpc_port))
                await _until(stop.requested, http, engines.client.host_down)
                log.info("stopping; open sessions: %d", manager.open_sessions)
                gateway.close()
                await health.set_ready(False)
                await _drain(manager, stop, config.server.drain_s)


def build_app(config: Config, gateway: Gateway, metrics: Metrics) -> Starlette:
    """Returns the web application as it begins: page, health and metrics."""
    access = access_of(config)

    def authorize(request: Request) -> bool:
        return _has_key(access, request)

    return Starlette(routes=[*web_routes(), *health_routes(gateway, metrics, authorize)])


def _has_key(access: Access, request: Request) -> bool:
    if access.keys.is_open:
        return True
    try:
        access.keys.identify(credentials(request.headers.get("authorization")).key)
    except Unauthorized:
        return False
    return True


async def _until(
    requested: asyncio.Event, http: "asyncio.Task[None]", host_down: asyncio.Event
) -> None:
    """Waits for the stop. Raises `EngineFailed` if HTTP or the engine host ends by itself.

    The process then ends with a status that makes its supervisor start another one.
    """
    stopping = asyncio.create_task(requested.wait())
    broken = asyncio.create_task(host_down.wait())
    try:
        await asyncio.wait({stopping, broken, http}, return_when=asyncio.FIRST_COMPLETED)
        if requested.is_set():
            return
        what = "engine host" if host_down.is_set() else "HTTP server"
        raise EngineFailed(f"the {what} ended by itself; see the log")
    finally:
        stopping.cancel()
        broken.cancel()


async def _drain(manager: SessionManager, stop: StopSignal, patience_s: float) -> None:
    """Lets the sessions end by themselves for a while, unless a second signal comes."""
    draining = asyncio.create_task(manager.drain(patience_s))
    hurried = asyncio.create_task(stop.hurried.wait())
    await asyncio.wait({draining, hurried}, return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    if not draining.done():
        draining.cancel()
        await manager.drain(0.0)


@asynccontextmanager
async def _grpc(config: Config) -> AsyncIterator[tuple[HealthServer, int]]:
    host, port = config.server.host, config.server.grpc_port
    health = HealthServer(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    try:
        bound_port = await health.start()
    except RuntimeError as error:
        raise BadRequest(
            f"cannot listen on {host}:{port} for gRPC; choose another with --grpc-port, "
            "or stop what listens there (antiphon doctor)"
        ) from error
    try:
        yield health, bound_port
    finally:
        await health.stop()


def _bound(config: Config, **ports: int) -> Config:
    """Returns the configuration with the ports that were really bound."""
    server = config.server.model_copy(update=ports)
    return config.model_copy(update={"server": server})
