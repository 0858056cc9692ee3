"""The one tree of settings, where its values come from, and what it refuses.

Lowest to highest: the defaults of the sections, a YAML file, environment variables
(`ANTIPHON_SERVER__PORT=8001`), command line flags. Unknown names are refused everywhere.
"""

import argparse
import difflib
import ipaddress
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, EnvSettingsSource, SettingsConfigDict, SettingsError
from pydantic_settings.sources import PydanticBaseSettingsSource

from antiphon.config_sections import (
    AccessSection,
    AsrSection,
    EngineSection,
    LmSection,
    LogsSection,
    ModelsSection,
    ServerSection,
    SessionsSection,
    TwilioSection,
)
from antiphon.config_text import knobs
from engines.errors import BadRequest

ENV_PREFIX = "ANTIPHON_"
CONFIG_FILE_ENV = "ANTIPHON_CONFIG"
_ENV_BESIDE_SETTINGS = {CONFIG_FILE_ENV, "ANTIPHON_CACHE_DIR", "ANTIPHON_API_KEY"}
_UNITS = ("_s", "_ms", "_hz", "_bytes", "_tokens", "_events", "_chunks", "_samples")


class Config(BaseSettings):
    """Is the whole tree. Built directly it reads neither files nor the environment."""

    model_config = SettingsConfigDict(extra="forbid", frozen=True)

    server: ServerSection = Field(default=ServerSection(), description="Where and how it listens.")
    access: AccessSection = Field(default=AccessSection(), description="Who may use it.")
    sessions: SessionsSection = Field(default=SessionsSection(), description="Conversations.")
    models: ModelsSection = Field(default=ModelsSection(), description="What is loaded.")
    asr: AsrSection = Field(default=AsrSection(), description="Speech to text.")
    lm: LmSection = Field(default=LmSection(), description="Replies.")
    engine: EngineSection = Field(default=EngineSection(), description="The embedded engine.")
    twilio: TwilioSection = Field(default=TwilioSection(), description="Telephone calls by Twilio.")
    logs: LogsSection = Field(default=LogsSection(), description="Logs.")

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Leaves only the constructor's arguments; `load_config` looks at the rest."""
        return (init_settings,)


def load_config(file: Path | None = None, flags: Mapping[str, Any] | None = None) -> Config:
    """Reads the configuration from all its sources and checks it.

    Args:
        file: YAML file; None takes the one that ANTIPHON_CONFIG names, if any.
        flags: values from the command line by dotted path, as `{"server.port": 8001}`.

    Raises:
        BadRequest: a name is unknown, a value is wrong, or values do not go together.
    """
    if file is None and (named := os.environ.get(CONFIG_FILE_ENV)):
        file = Path(named)
    values = _read_yaml(file) if file is not None else {}
    values = _merge(values, _read_environment())
    for path, value in (flags or {}).items():
        values = _merge(values, _nest(path, value))
    try:
        config = Config(**values)
    except ValidationError as error:
        raise _readable(error) from None
    refuse_illegal_combinations(config)
    return config


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags that `config_from_args` reads."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="YAML file with settings")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="KNOB=VALUE",
        help="one setting, as server.port=8001; may be repeated",
    )


def config_from_args(args: argparse.Namespace, flags: Mapping[str, Any] | None = None) -> Config:
    """Loads the configuration with `--config`, `--set` and a command's own `flags` on top.

    Flags whose value is None were not given and change nothing.
    """
    given: dict[str, Any] = {}
    for setting in args.set:
        path, equals, text = setting.partition("=")
        if not equals:
            raise BadRequest(f"--set wants KNOB=VALUE, not {setting!r}")
        given[path] = _parse_yaml(text, f"--set {path}")
    given |= {path: value for path, value in (flags or {}).items() if value is not None}
    return load_config(args.config, given)


def refuse_illegal_combinations(config: Config) -> None:
    """Refuses values that are fine alone and wrong together.

    Raises:
        BadRequest: naming the knobs, and what to do.
    """
    for param, message in _illegal(config):
        raise BadRequest(message, param=param)


def _illegal(config: Config) -> Iterator[tuple[str, str]]:
    server, access, limits = config.server, config.access, config.sessions.limits
    if not access.keys and not is_loopback(server.host):
        yield (
            "server.host",
            f"server.host {server.host} is reachable from outside, and there are no "
            "access.keys: add one (name and key), or bind 127.0.0.1",
        )
    if not access.keys and "*" in server.allowed_origins:
        yield (
            "server.allowed_origins",
            "server.allowed_origins '*' lets every web page use this server: add access.keys, "
            "or list the origins",
        )
    if server.port == server.grpc_port != 0:
        yield "server.grpc_port", "server.port and server.grpc_port must differ"
    if server.public_url and urlsplit(server.public_url).scheme not in {"http", "https"}:
        yield "server.public_url", "server.public_url must begin with http:// or https://"
    if config.twilio.stream_url and urlsplit(config.twilio.stream_url).scheme != "wss":
        yield "twilio.stream_url", "twilio.stream_url must begin with wss://"
    if len({key.digest for key in access.keys}) < len(access.keys):
        yield "access.keys", "two of access.keys have the same key"
    if len({key.name for key in access.keys}) < len(access.keys):
        yield "access.keys", "two of access.keys have the same name"
    if limits.route_ahead_s is not None and limits.route_ahead_s > limits.generate_ahead_s:
        yield (
            "sessions.limits.route_ahead_s",
            "sessions.limits.route_ahead_s must not be over sessions.limits.generate_ahead_s",
        )
    if config.engine.max_running < config.sessions.admission.max_sessions:
        yield (
            "engine.max_running",
            "engine.max_running must not be under sessions.admission.max_sessions: "
            "an admitted session would be refused by the engines",
        )
    yield from _out_of_range(config)


def _out_of_range(config: Config) -> Iterator[tuple[str, str]]:
    """Checks what the rooms' own dataclasses leave to whoever fills them."""
    for knob in knobs(config):
        name, value = knob.path.rpartition(".")[2], knob.value
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        if not math.isfinite(value):
            yield knob.path, f"{knob.path} is {value}; it must be a number"
        if name.endswith(_UNITS) and value < 0:
            yield knob.path, f"{knob.path} is {value}; it cannot be negative"
        if name.endswith(("threshold", "_prob")) and not 0 <= value <= 1:
            yield knob.path, f"{knob.path} is {value}; it must be within 0..1"


def is_loopback(host: str) -> bool:
    """Says whether an address to bind can be reached from this machine only."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        content = _parse_yaml(file.read_text(), str(file))
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"the configuration file {file} cannot be read: {error}") from error
    if not isinstance(content, dict | None):
        raise BadRequest(f"the configuration file {file} must hold sections, as 'server:'")
    return content or {}


def _parse_yaml(text: str, where: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise BadRequest(f"{where} is not YAML: {' '.join(str(error).split())}") from error


def _read_environment() -> dict[str, Any]:
    for name in os.environ:
        section = name.upper().removeprefix(ENV_PREFIX).partition("__")[0].lower()
        is_ours = name.upper().startswith(ENV_PREFIX) and name not in _ENV_BESIDE_SETTINGS
        if is_ours and section not in Config.model_fields:
            raise BadRequest(
                f"the environment variable {name} names no setting; write "
                f"{ENV_PREFIX}SECTION__KNOB with a section of: {', '.join(Config.model_fields)}"
            )
    source = EnvSettingsSource(
        Config, env_prefix=ENV_PREFIX, env_nested_delimiter="__", env_ignore_empty=True
    )
    try:
        return source()
    except SettingsError as error:
        raise BadRequest(f"the environment cannot be read: {error}: {error.__cause__}") from error


def _nest(path: str, value: Any) -> dict[str, Any]:
    for name in reversed(path.split(".")):
        value = {name: value}
    nested: dict[str, Any] = value
    return nested


def _merge(low: Mapping[str, Any], high: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(low)
    for name, value in high.items():
        below = merged.get(name)
        if isinstance(below, Mapping) and isinstance(value, Mapping):
            value = _merge(below, value)
        merged[name] = value
    return merged


def _readable(error: ValidationError) -> BadRequest:
    """Makes one line of pydantic's first complaint."""
    first = error.errors(include_url=False, include_input=False)[0]
    path = ".".join(str(part) for part in first["loc"])
    if first["type"] not in {"extra_forbidden", "unexpected_keyword_argument"}:
        return BadRequest(f"{path}: {first['msg']}", param=path)
    known = [knob.path for knob in knobs(Config())] + list(Config.model_fields)
    near = difflib.get_close_matches(path, known, n=1)
    hint = f"did you mean {near[0]}?" if near else "see: antiphon config"
    return BadRequest(f"{path}: there is no such setting; {hint}", param=path)
