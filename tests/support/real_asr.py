"""The embedded speech models, real, behind the real engine host."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

from asr.long_audio import LongTranscriber
from asr.transcriber import Transcriber
from asr.whisper_tokens import WhisperTokens
from engines.base import Seq2SeqEngine, VoiceActivityEngine
from engines.torch.client import HostClient
from engines.torch.host import EngineHost
from engines.torch.loader import load_whisper
from engines.torch.models.silero_vad import load_silero_vad
from engines.torch.one_by_one import OneByOneEngine
from engines.torch.vad_engine import VadEngine
from engines.torch.whisper_engine import WhisperRunner
from tests.support.models import model_path


@dataclass(frozen=True, slots=True)
class RealAsr:
    """Holds the room's entries, wired to whisper-base and Silero."""

    speech: Seq2SeqEngine
    voice: VoiceActivityEngine
    tokens: WhisperTokens
    transcriber: Transcriber
    long: LongTranscriber


@contextmanager
def speech_host() -> Iterator[EngineHost]:
    """Runs whisper-base as "asr" and Silero as "vad"."""
    directory = model_path("whisper-base")
    archive = model_path("silero-vad") / "silero_vad.jit"
    host = EngineHost(
        {
            "asr": lambda: OneByOneEngine(WhisperRunner(load_whisper(directory)), 8),
            "vad": lambda: VadEngine(load_silero_vad(archive)),
        }
    )
    host.start()
    host.wait_ready(120)
    try:
        yield host
    finally:
        host.close()


@asynccontextmanager
async def real_asr(host: EngineHost) -> AsyncIterator[RealAsr]:
    """Connects the running loop to a host made by `speech_host`."""
    client = HostClient(host)
    speech, voice = client.seq2seq_engine("asr"), client.vad_engine("vad")
    tokens = WhisperTokens(model_path("whisper-base"))
    transcriber = Transcriber(speech, tokens)
    try:
        yield RealAsr(speech, voice, tokens, transcriber, LongTranscriber(transcriber, voice))
    finally:
        await client.close()
