"""Serves the demo page at `/` and its few files under `/web/`, with strict headers.

Everything the page loads comes from here: it works without any other host, and its
content security policy allows neither inline code nor foreign origins.
"""

from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FOLDER = Path(__file__).parent / "web"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
HEADERS = {
    # 'self' in connect-src covers the WebSocket of the same host (CSP level 3);
    # audio worklets load under script-src.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",  # frame-ancestors, for browsers before CSP level 2
    "Cache-Control": "no-cache",  # a new release's page must never meet an old script
}


def web_routes() -> list[Route]:
    """Reads the page's files once and returns the routes that serve them."""
    page = (FOLDER / "index.html").read_bytes()
    files = {
        path.name: (path.read_bytes(), MEDIA_TYPES[path.suffix])
        for path in sorted(FOLDER.iterdir())
        if path.suffix in MEDIA_TYPES and path.name != "index.html"
    }

    async def index(_: Request) -> Response:
        return Response(page, media_type=MEDIA_TYPES[".html"], headers=HEADERS)

    async def asset(request: Request) -> Response:
        body, media_type = files.get(request.path_params["name"], (b"", ""))
        if not media_type:
            return Response("not found", status_code=404, media_type="text/plain", headers=HEADERS)
        return Response(body, media_type=media_type, headers=HEADERS)

    return [Route("/", index), Route("/web/{name}", asset)]
