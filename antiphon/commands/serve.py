"""`antiphon serve`: runs the server until it is told to stop."""

import argparse
import asyncio
import sys

from antiphon.config import Config, add_config_arguments, config_from_args
from antiphon.logs import setup_logs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the flags."""
    add_config_arguments(parser)
    parser.add_argument("--host", help="address to bind (server.host)")
    parser.add_argument("--port", type=int, help="HTTP and WebSocket port (server.port)")
    parser.add_argument("--grpc-port", type=int, help="gRPC port (server.grpc_port)")


def run(args: argparse.Namespace) -> int:
    """Serves until SIGTERM or SIGINT; returns 0 after a clean drain."""
    flags = {
        "server.host": args.host,
        "server.port": args.port,
        "server.grpc_port": args.grpc_port,
    }
    config = config_from_args(args, flags)
    setup_logs(config.logs)
    _say("Antiphon: loading models ...")

    from antiphon.app import serve  # torch is imported only once the flags are right

    return asyncio.run(serve(config, lambda bound: _say(greeting(bound))))


def greeting(config: Config) -> str:
    """Returns what to open or call, for the person who started the server."""
    host, port = config.server.host, config.server.port
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # not addresses to connect to
    shown = everywhere.get(host, host)
    shown = f"[{shown}]" if ":" in shown else shown
    note = "wants a key" if config.access.keys else "open: bound to this machine only"
    return "\n".join(
        (
            "Antiphon is ready.",
            f"  talk in a browser     http://{shown}:{port}/",
            f"  OpenAI Realtime       ws://{shown}:{port}/v1/realtime ({note})",
            f"  Twilio Media Streams  ws://{shown}:{port}/twilio",
            f"  gRPC health           {shown}:{config.server.grpc_port}",
            "  from a terminal       antiphon talk question.wav -o reply.wav",
            "                        (first: . .venv/bin/activate)",
        )
    )


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
