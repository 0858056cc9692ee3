import asyncio
from pathlib import Path

import pytest

from antiphon.config import Config, load_config
from antiphon.embedded import (
    Role,
    embedded,
    engine_factories,
    ensure_models,
    load_options,
    model_of,
    warm_up,
)
from antiphon.models import ModelStore
from engines.base import Ticket
from engines.errors import AntiphonError, NotFound
from tests.support.models import model_path


@pytest.fixture(scope="module")
def folders() -> dict[Role, Path]:
    return {role: model_path(model_of(Config(), role)) for role in Role}


async def test_every_role_is_loaded_warmed_up_and_counted(folders: dict[Role, Path]) -> None:
    async with embedded(Config(), folders) as engines:
        pipelines = engines.pipelines()
        assert pipelines.synthesizer.sample_rate_hz == 22_050
        await warm_up(pipelines)
        stats = {name: snapshot() for name, snapshot in engines.stats().items()}
        assert stats.keys() == {"vad", "asr", "lm", "voice"}
        for name in ("asr", "lm", "voice"):
            assert stats[name].finished >= 1, name
            assert stats[name].running == 0, name
            assert stats[name].failed == 0, name
            assert stats[name].steps >= 1, name
        ticket = Ticket("stream")
        stream_id = await pipelines.vad.open(ticket)
        await pipelines.vad.close(stream_id)


async def test_role_that_was_not_asked_for_is_not_there(folders: dict[Role, Path]) -> None:
    only = {Role.VAD: folders[Role.VAD]}
    async with embedded(Config(), only) as engines:
        assert engines.stats().keys() == {"vad"}
        absent = (
            engines.transcriber,
            engines.long_transcriber,
            engines.responder,
            engines.synthesizer,
        )
        for take in absent:
            with pytest.raises(NotFound):
                take()


async def test_model_that_cannot_be_loaded_is_an_error_that_names_it_and_ends_the_host(
    tmp_path: Path, folders: dict[Role, Path]
) -> None:
    tasks = asyncio.all_tasks()
    (tmp_path / "silero_vad.jit").write_bytes(b"no model")
    with pytest.raises(AntiphonError, match="vad"):
        async with embedded(Config(), {Role.VAD: tmp_path}):
            raise AssertionError("it was loaded")
    assert asyncio.all_tasks() == tasks


def test_configured_model_of_each_role_is_the_one_that_is_ensured(tmp_path: Path) -> None:
    own = tmp_path / "vad"
    own.mkdir()
    store = ModelStore(tmp_path / "cache", local={"silero-vad": own}, sources=())
    with pytest.raises(AntiphonError, match=r"silero_vad\.jit"):
        ensure_models(Config(), store, (Role.VAD,))
    (own / "silero_vad.jit").touch()
    assert ensure_models(Config(), store, (Role.VAD,)) == {Role.VAD: own}


def test_names_of_models_come_from_the_configuration() -> None:
    config = load_config(flags={"models.lm": "another"})
    assert model_of(config, Role.LM) == "another"
    assert model_of(config, Role.ASR) == "whisper-base"


def test_factories_load_nothing_until_they_are_called() -> None:
    nowhere = {role: Path("/no/such/folder") for role in Role}
    assert engine_factories(Config(), nowhere).keys() == {"vad", "asr", "lm", "voice"}


@pytest.mark.parametrize(
    ("configured", "used"), [("auto", "float32"), ("float32", "float32"), ("bfloat16", "bfloat16")]
)
def test_weights_are_held_as_configured(configured: str, used: str) -> None:
    options = load_options(load_config(flags={"models.dtype": configured}))
    assert str(options.dtype) == f"torch.{used}"
