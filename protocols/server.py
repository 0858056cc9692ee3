"""Joins the WebSocket routes of all protocols."""

from dataclasses import dataclass, field

from starlette.routing import BaseRoute, WebSocketRoute

from protocols.auth import Access
from protocols.openai.realtime_session import RealtimeSettings
from protocols.openai.server import RealtimeDoor
from protocols.telephony.server import TwilioDoor
from protocols.telephony.twilio import TwilioSettings
from protocols.websocket.server import Count
from streams.sessions import SessionFactory

REALTIME_PATH = "/v1/realtime"
TWILIO_PATH = "/twilio"


@dataclass(frozen=True, slots=True)
class ProtocolSettings:
    """Is what the operator sets for all doors.

    Attributes:
        access: who may come in.
        realtime: of OpenAI Realtime.
        twilio: of Twilio Media Streams; None leaves that door out.
    """

    access: Access
    realtime: RealtimeSettings = field(default_factory=RealtimeSettings)
    twilio: TwilioSettings | None = field(default_factory=TwilioSettings)


def protocol_routes(
    factory: SessionFactory, settings: ProtocolSettings, count: Count
) -> list[BaseRoute]:
    """Returns the routes of all protocols.

    Args:
        factory: opens the sessions.
        settings: the operator's.
        count: told the name and number of things that were thrown away.
    """
    realtime = RealtimeDoor(factory, settings.realtime, settings.access, count=count)
    routes: list[BaseRoute] = [WebSocketRoute(REALTIME_PATH, realtime.serve)]
    if settings.twilio is not None:
        twilio = TwilioDoor(factory, settings.twilio, settings.access, count=count)
        routes.append(WebSocketRoute(TWILIO_PATH, twilio.serve))
    return routes
