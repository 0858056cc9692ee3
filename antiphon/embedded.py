"""Builds the embedded engines and the pipelines over them, as configured.

The one place that knows which model fills which role. Everything above sees the interfaces
of `engines.base`; a command asks only for the roles that it needs.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import numpy as np
import torch

from antiphon.config import Config
from antiphon.cores import engine_threads
from antiphon.models import ModelStore
from asr.config import SAMPLE_RATE_HZ
from asr.long_audio import LongTranscriber
from asr.transcriber import Transcriber
from asr.transcript import TranscribeOptions
from asr.whisper_tokens import WhisperTokens
from engines.base import EngineStats, Ticket, VoiceActivityEngine
from engines.torch.client import HostClient
from engines.torch.host import EngineHost
from engines.torch.loader import LoadOptions
from engines.torch.step_engine import StepEngine
from streams.context import Pipelines
from tts.piper_voice import PiperSynthesizer
from tts.synthesizer import Synthesizer, VoiceOptions
from vlm.responder import ChatMessage, ReplyOptions, Responder

log = logging.getLogger(__name__)

LOAD_TIMEOUT_S = 300.0
WARM_UP_TIMEOUT_S = 120.0


class Role(StrEnum):
    """Names what an engine is for; also its name in the host and in metrics."""

    VAD = "vad"
    ASR = "asr"
    LM = "lm"
    VOICE = "voice"


def model_of(config: Config, role: Role) -> str:
    """Returns the name of the model that the configuration gives to a role."""
    name: str = getattr(config.models, str(role))
    return name


@dataclass(frozen=True, slots=True)
class Embedded:
    """Is the running engine host with what the asked-for roles give.

    A pipeline whose roles were not asked for raises `NotFound` when it is taken.
    """

    client: HostClient
    folders: Mapping[Role, Path]
    config: Config

    def stats(self) -> Mapping[str, Callable[[], EngineStats]]:
        """Returns a snapshot function for each running engine."""
        return {str(role): _stats_of(self.client, role) for role in self.folders}

    @property
    def vad(self) -> VoiceActivityEngine:
        """The voice activity engine."""
        return self.client.vad_engine(Role.VAD)

    def transcriber(self) -> Transcriber:
        """Returns the recogniser of single utterances."""
        engine = self.client.seq2seq_engine(Role.ASR)
        tokens = WhisperTokens(self.folders[Role.ASR])
        return Transcriber(engine, tokens, self.config.asr.transcriber)

    def long_transcriber(self) -> LongTranscriber:
        """Returns the recogniser of recordings of any length."""
        return LongTranscriber(self.transcriber(), self.vad, self.config.asr.files)

    def responder(self) -> Responder:
        """Returns what writes replies."""
        engine = self.client.token_engine(Role.LM)
        return Responder.load(engine, self.folders[Role.LM], self.config.lm.responder)

    def synthesizer(self) -> Synthesizer:
        """Returns what speaks."""
        return PiperSynthesizer(self.client.waveform_engine(Role.VOICE), self.folders[Role.VOICE])

    def pipelines(self) -> Pipelines:
        """Returns all of them, for sessions."""
        return Pipelines(
            vad=self.vad,
            transcriber=self.transcriber(),
            long_transcriber=self.long_transcriber(),
            responder=self.responder(),
            synthesizer=self.synthesizer(),
        )


@asynccontextmanager
async def embedded(config: Config, folders: Mapping[Role, Path]) -> AsyncIterator[Embedded]:
    """Starts the engines of the given roles and ends them.

    Args:
        config: the effective configuration.
        folders: directory of the model for each role that is needed.

    Raises:
        AntiphonError: a model cannot be loaded.
    """
    host = EngineHost(
        engine_factories(config, folders), threads=engine_threads(config.engine.threads)
    )
    host.start()
    try:
        await asyncio.to_thread(host.wait_ready, LOAD_TIMEOUT_S)
        client = HostClient(host)
        try:
            yield Embedded(client, folders, config)
        finally:
            await client.close()
    finally:
        await asyncio.to_thread(host.close)


def ensure_models(config: Config, store: ModelStore, roles: Collection[Role]) -> dict[Role, Path]:
    """Returns the model directory of each role, fetched first where it is missing."""
    return {role: store.ensure(model_of(config, role)) for role in roles}


async def warm_up(pipelines: Pipelines) -> None:
    """Runs every engine once, so that the first caller does not pay for it."""
    rng = np.random.default_rng(0)
    noise = (0.05 * rng.standard_normal(SAMPLE_RATE_HZ)).astype(np.float32)
    await pipelines.transcriber.transcribe(
        noise, options=TranscribeOptions("en"), ticket=_ticket("asr")
    )
    messages = [ChatMessage("user", "Hello.")]
    options = ReplyOptions(max_tokens=2)
    async for _ in pipelines.responder.reply(messages, options, _ticket("lm")):
        pass
    voice = VoiceOptions()
    async for _ in pipelines.synthesizer.speak("Hello.", voice=voice, ticket=_ticket("voice")):
        pass


def _ticket(name: str) -> Ticket:
    return Ticket(f"warm-up.{name}", timeout_s=WARM_UP_TIMEOUT_S)


def _stats_of(client: HostClient, role: Role) -> Callable[[], EngineStats]:
    return lambda: client.stats(role)


def load_options(config: Config) -> LoadOptions:
    """Returns how weights are held.

    `auto` computes in float32 until a quality gate says otherwise, on weights in whichever
    layout holds the same values and is quickest here.
    """
    dtypes = {"auto": torch.float32, "float32": torch.float32, "bfloat16": torch.bfloat16}
    dtype = config.models.dtype
    return LoadOptions(dtype=dtypes[dtype], calibrate=dtype == "auto")


def engine_factories(
    config: Config, folders: Mapping[Role, Path]
) -> dict[str, Callable[[], StepEngine]]:
    """Returns a loader for each role; each runs on the host's thread."""
    loaders: dict[Role, Callable[[Config, Path], StepEngine]] = {
        Role.VAD: _load_vad,
        Role.ASR: _load_asr,
        Role.LM: _load_lm,
        Role.VOICE: _load_voice,
    }
    return {str(role): _bound(loaders[role], config, path) for role, path in folders.items()}


def _bound(
    loader: Callable[[Config, Path], StepEngine], config: Config, path: Path
) -> Callable[[], StepEngine]:
    return lambda: loader(config, path)


def _load_vad(config: Config, path: Path) -> StepEngine:
    from engines.torch.models.silero_vad import load_silero_vad
    from engines.torch.vad_engine import VadEngine

    return VadEngine(load_silero_vad(path / "silero_vad.jit"))


def _load_asr(config: Config, path: Path) -> StepEngine:
    from engines.torch.loader import load_whisper
    from engines.torch.one_by_one import OneByOneEngine
    from engines.torch.whisper_engine import WhisperRunner, WhisperRunnerConfig

    model = load_whisper(path, load_options(config))
    knobs = WhisperRunnerConfig(name=config.models.asr, step_gflop=config.engine.step_gflop)
    runner = WhisperRunner(model, knobs)
    return OneByOneEngine(runner, config.engine.max_running)


def _load_lm(config: Config, path: Path) -> StepEngine:
    from engines.torch.loader import load_llama
    from engines.torch.token_engine import TokenEngineConfig, TokenStepEngine

    engine = config.engine
    knobs = TokenEngineConfig(
        name=config.models.lm,
        scheduler=engine.scheduler,
        cache_bytes=engine.kv_cache_bytes,
        kv_dtype=engine.kv_dtype,
        reuse=engine.prefix_reuse,
        speculate=engine.speculate,
    )
    return TokenStepEngine(load_llama(path, load_options(config)), knobs)


def _load_voice(config: Config, path: Path) -> StepEngine:
    from engines.torch.one_by_one import OneByOneEngine
    from engines.torch.vits_engine import load_vits

    graphs = sorted(path.glob("*.onnx"))
    return OneByOneEngine(
        load_vits(graphs[0], engine_threads(config.engine.threads)), config.engine.max_running
    )
