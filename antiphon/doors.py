"""Translates the configuration into what the protocols' doors ask for."""

from collections.abc import Collection
from urllib.parse import urlsplit, urlunsplit

from antiphon.config import Config
from protocols.auth import Access, KeyRing, Principal, allowed_origins
from protocols.openai.realtime_session import RealtimeSettings
from protocols.server import TWILIO_PATH, ProtocolSettings
from protocols.telephony.twilio import TwilioSettings
from streams.config import SessionConfig


def protocol_settings(config: Config, languages: Collection[str] = ()) -> ProtocolSettings:
    """Returns the settings of all doors.

    Args:
        config: the effective configuration.
        languages: codes that the recogniser knows; any other is refused.
    """
    base = SessionConfig(
        instructions=config.sessions.instructions, turn_detection=config.sessions.turn_detection
    )
    realtime = RealtimeSettings(
        transcription_model=config.models.asr,
        base=base,
        max_session_s=config.sessions.limits.max_session_s,
        languages=frozenset(languages),
    )
    return ProtocolSettings(access_of(config), realtime, _twilio(config, base))


def access_of(config: Config) -> Access:
    """Returns who may come in: the configured keys, and pages of our own or listed origins."""
    owners = {key.digest: Principal(key.name, key.engine_tier) for key in config.access.keys}
    server = config.server
    public = (_origin(server.public_url),) if server.public_url else ()
    origins = allowed_origins(server.host, server.port, (*public, *server.allowed_origins))
    return Access(KeyRing.of_digests(owners), origins)


def _twilio(config: Config, base: SessionConfig) -> TwilioSettings:
    section = config.twilio
    stream_url = section.stream_url
    if stream_url is None and config.server.public_url:
        parts = urlsplit(config.server.public_url)
        path = parts.path.rstrip("/") + TWILIO_PATH
        stream_url = urlunsplit(("wss", parts.netloc, path, "", ""))
    return TwilioSettings(
        auth_token=section.auth_token.get_secret_value() if section.auth_token else None,
        stream_token=(
            section.parameter_token.get_secret_value() if section.parameter_token else None
        ),
        public_url=stream_url,
        base=base,
    )


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
