"""`/healthz`, `/readyz` and `/metrics`: what orchestrators and dashboards ask."""

from collections.abc import Callable
from ipaddress import ip_address

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from antiphon.gateway import Gateway, GatewayState
from antiphon.metrics import CONTENT_TYPE, Metrics

Authorize = Callable[[Request], bool]
"""Whether a request carries a valid key; true where the server needs none."""


def health_routes(gateway: Gateway, metrics: Metrics, authorize: Authorize) -> list[Route]:
    """Returns the routes.

    Args:
        gateway: tells the state.
        metrics: are rendered for whoever asks from this machine, or with a key.
        authorize: checks keys.
    """

    async def healthz(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def readyz(_: Request) -> Response:
        state = gateway.state
        body = {"status": str(state), "sessions": gateway.open_sessions}
        return JSONResponse(body, status_code=200 if state is GatewayState.READY else 503)

    async def scrape(request: Request) -> Response:
        if not (_is_local(request) or authorize(request)):
            return JSONResponse({"error": "a key is needed"}, status_code=401)
        return Response(metrics.render(), media_type=CONTENT_TYPE)

    return [Route("/healthz", healthz), Route("/readyz", readyz), Route("/metrics", scrape)]


def _is_local(request: Request) -> bool:
    """Whether the peer is this machine; a proxy here makes everybody look local."""
    if request.client is None or "x-forwarded-for" in request.headers:
        return False
    try:
        return ip_address(request.client.host).is_loopback
    except ValueError:
        return False
