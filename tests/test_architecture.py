"""The house's rules: imports run down only, pure modules stay pure, files stay short."""

import ast
import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PIPELINES = {"asr", "vlm", "tts"}
MAY_IMPORT = {
    "engines": set(),
    **{room: {"engines"} for room in sorted(PIPELINES)},
    "streams": PIPELINES | {"engines"},
    "protocols": {"streams"},
    "antiphon": PIPELINES | {"protocols", "streams", "engines"},
}
STREAMS_SEES_OF_ENGINES = {"engines.base", "engines.errors", "engines.messages"}
WEB = {"starlette", "fastapi", "uvicorn", "websockets", "grpc", "httpx", "aiohttp", "requests"}
PURE_FORBIDS = WEB | {"asyncio", "threading", "time", "socket", "torch"}
PURE = """
    engines: base errors messages torch/executor torch/messages torch/step_engine
        torch/admission torch/capacity torch/free_runs torch/kv_budget torch/kv_cache torch/pace
        torch/prefix_index torch/prompt_lookup torch/scheduler torch/sequence
        torch/session_shares torch/step_plan torch/step_rows torch/stop_rules
    asr: config endpointing evidence hypothesis guards formats segmenter transcript mp3_frames
        utterance wer whisper_tokens
    tts: abbreviations addresses boundaries checks chunker clean config english language markdown
        number_rules number_words
    vlm: chat_template config detokenizer history messages stop_strings
    streams: events errors config turns generation conversation playout admission observer gap_meter
        spoken_text resampler
    protocols: errors auth audio_formats openai/realtime openai/realtime_events
        openai/realtime_input openai/realtime_output openai/realtime_reply openai/realtime_errors
        openai/realtime_session openai/realtime_state openai/session_models openai/validation
        telephony/twilio telephony/twilio_messages telephony/playback telephony/reorder
        telephony/signature
"""
MAX_LINES = 400
LONGER_LISTS_OF_EVENTS = {"streams/events.py", "protocols/openai/realtime_events.py"}


def pure_modules() -> list[Path]:
    room, found = "", []
    for word in PURE.split():
        if word.endswith(":"):
            room = word.removesuffix(":")
        else:
            found.append(ROOT / room / f"{word}.py")
    return found


def sources(*folders: str) -> list[Path]:
    found = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return [path for path in found if "generated" not in path.parts]


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} imports relatively"
            yield node.module or ""


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_room_imports_only_what_lies_below_it(room: str) -> None:
    forbidden = (MAY_IMPORT.keys() | {"tests"}) - MAY_IMPORT[room] - {room}
    for path in sources(room):
        for name in imports(path):
            where = f"{path.relative_to(ROOT)} imports {name}"
            assert name.partition(".")[0] not in forbidden, where
            if room == "streams" and name.startswith("engines"):
                assert name in STREAMS_SEES_OF_ENGINES, where
            if room != "antiphon" and path.name != "server.py":
                assert name.partition(".")[0] not in WEB, where


def test_back_ends_do_not_import_each_other() -> None:
    for back_end, other in (("torch", "trtllm"), ("trtllm", "torch")):
        for path in sources(f"engines/{back_end}"):
            assert not any(name.startswith(f"engines.{other}") for name in imports(path)), path


@pytest.mark.parametrize("path", pure_modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_pure_module_touches_neither_clock_nor_network_nor_torch(path: Path) -> None:
    assert not {name.partition(".")[0] for name in imports(path)} & PURE_FORBIDS


def test_files_are_short_enough_to_read() -> None:
    for path in sources(*MAY_IMPORT, "tests"):
        if str(path.relative_to(ROOT)) not in LONGER_LISTS_OF_EVENTS:
            assert len(path.read_text().splitlines()) <= MAX_LINES, path


def test_every_folder_of_tests_is_a_package() -> None:
    for folder in {path.parent for path in sources("tests")}:
        assert (folder / "__init__.py").exists(), folder


def test_our_generic_package_names_are_provided_by_us_alone() -> None:
    provided = importlib.metadata.packages_distributions()
    for room in MAY_IMPORT:
        assert set(provided.get(room, ["antiphon"])) == {"antiphon"}, room
