"""Replies over a scripted engine and over the embedded model."""

from collections.abc import Iterator, Sequence
from contextlib import aclosing

import pytest

from engines.base import FinishReason, GenerateRequest, Sampling, Ticket
from engines.errors import BadRequest
from engines.torch.client import HostClient
from engines.torch.host import EngineHost
from engines.torch.loader import load_llama
from engines.torch.token_engine import TokenStepEngine
from tests.support.models import model_path
from tests.support.scripted_engines import ScriptedTokenEngine
from vlm.chat_template import ChatTemplate
from vlm.config import EXAMPLES, INSTRUCTIONS
from vlm.responder import ChatMessage, ReplyDelta, ReplyOptions, Responder, ResponderConfig

HELLO = [ChatMessage("user", "Hello")]


class Setting:
    """A responder over an engine that writes a given text and then ends its turn."""

    def __init__(
        self, template: ChatTemplate, text: str, config: ResponderConfig | None = None
    ) -> None:
        self.template = template
        ids = template.tokenizer.encode(text).ids
        end = template.tokenizer.token_to_id("<|im_end|>")
        self.engine = ScriptedTokenEngine(lambda request: [*ids, end])
        self.responder = Responder(self.engine, template, config)

    async def reply(
        self, messages: Sequence[ChatMessage], options: ReplyOptions | None = None
    ) -> list[ReplyDelta]:
        deltas = self.responder.reply(messages, options or ReplyOptions(), Ticket("reply"))
        return [delta async for delta in deltas]

    @property
    def request(self) -> GenerateRequest:
        return self.engine.requests[-1]

    @property
    def prompt(self) -> str:
        ids = list(self.request.prompt_ids)
        return str(self.template.tokenizer.decode(ids, skip_special_tokens=False))


def text_of(deltas: Sequence[ReplyDelta]) -> str:
    return "".join(delta.text for delta in deltas)


async def test_text_comes_as_it_is_made_and_the_last_delta_counts(smollm2: ChatTemplate) -> None:
    setting = Setting(smollm2, "Good day to you.")
    deltas = await setting.reply(HELLO)
    assert [delta.text for delta in deltas] == ["Good", " day", " to", " you", ".", ""]
    assert [delta.finish for delta in deltas[:-1]] == [None] * 5
    assert deltas[-1] == ReplyDelta(
        "", FinishReason.STOP, len(setting.request.prompt_ids), 3, output_tokens=5
    )


async def test_a_reply_that_reaches_max_tokens_says_so(smollm2: ChatTemplate) -> None:
    setting = Setting(smollm2, "Good day to you.")
    deltas = await setting.reply(HELLO, ReplyOptions(max_tokens=2))
    assert text_of(deltas) == "Good day"
    assert deltas[-1].finish is FinishReason.LENGTH


async def test_an_unfinished_character_at_the_end_is_not_lost(smollm2: ChatTemplate) -> None:
    setting = Setting(smollm2, "a\U0001f9ff")
    deltas = await setting.reply(HELLO, ReplyOptions(max_tokens=2))
    assert text_of(deltas) == "a\ufffd"


async def test_a_stop_string_ends_the_reply_and_the_engines_work(smollm2: ChatTemplate) -> None:
    config = ResponderConfig(stop_strings=("\nUser:",))
    setting = Setting(smollm2, "Well.\nUser: and so on and on and on", config)
    deltas = await setting.reply(HELLO)
    assert text_of(deltas) == "Well."
    assert deltas[-1].finish is FinishReason.STOP
    assert deltas[-1].prompt_tokens == len(setting.request.prompt_ids)
    assert setting.engine.delivered < 8
    assert setting.engine.open_streams == 0


async def test_an_end_mark_written_letter_by_letter_never_shows(smollm2: ChatTemplate) -> None:
    setting = Setting(smollm2, "")
    letters = [smollm2.tokenizer.encode(letter).ids[0] for letter in "Yes<|im_end|>user"]
    setting.engine.answer = lambda request: letters
    assert text_of(await setting.reply(HELLO)) == "Yes"


async def test_closing_early_closes_the_engines_stream(smollm2: ChatTemplate) -> None:
    setting = Setting(smollm2, "One two three four five six seven.")
    async with aclosing(setting.responder.reply(HELLO, ReplyOptions(), Ticket("x"))) as deltas:
        await anext(deltas)
    assert setting.engine.open_streams == 0
    assert setting.engine.delivered == 1


async def test_without_instructions_the_prompt_shows_rule_and_examples(
    smollm2: ChatTemplate,
) -> None:
    setting = Setting(smollm2, "Hi.")
    await setting.reply(HELLO)
    assert INSTRUCTIONS in setting.prompt
    assert all(example.text in setting.prompt for example in EXAMPLES)
    assert setting.prompt.endswith("user\nHello<|im_end|>\n<|im_start|>assistant\n")


async def test_instructions_of_the_request_replace_rule_and_examples(
    smollm2: ChatTemplate,
) -> None:
    setting = Setting(smollm2, "Hi.")
    await setting.reply(HELLO, ReplyOptions(instructions="Be a pirate."))
    assert "Be a pirate." in setting.prompt
    assert INSTRUCTIONS not in setting.prompt
    assert EXAMPLES[0].text not in setting.prompt


async def test_system_messages_at_the_start_join_the_instructions(smollm2: ChatTemplate) -> None:
    setting = Setting(smollm2, "Hi.")
    await setting.reply([ChatMessage("system", "Speak of cats."), *HELLO])
    assert f"{INSTRUCTIONS}\nSpeak of cats." in setting.prompt
    assert setting.prompt.count("<|im_start|>system") == 1


async def test_options_reach_the_engine(smollm2: ChatTemplate) -> None:
    setting = Setting(smollm2, "Hi.")
    options = ReplyOptions(max_tokens=7, sampling=Sampling(0.5, seed=1), cache_salt="tenant")
    await setting.reply(HELLO, options)
    assert setting.request.max_tokens == 7
    assert setting.request.sampling == Sampling(0.5, seed=1)
    assert setting.request.cache_salt == "tenant"
    assert setting.request.stop_ids == smollm2.stop_ids


async def test_oldest_turns_are_left_out_and_the_instructions_stay(smollm2: ChatTemplate) -> None:
    setting = Setting(smollm2, "Hi.", ResponderConfig(history_tokens=100))
    messages = []
    for number in range(20):
        messages.append(ChatMessage("user", f"This is question number {number}."))
        messages.append(ChatMessage("assistant", f"This is answer number {number}."))
    await setting.reply([*messages, ChatMessage("user", "And now?")])
    assert INSTRUCTIONS in setting.prompt
    assert "number 0." not in setting.prompt
    assert "answer number 19." in setting.prompt
    assert setting.prompt.endswith("And now?<|im_end|>\n<|im_start|>assistant\n")


async def test_max_tokens_shrink_to_what_the_context_still_holds(smollm2: ChatTemplate) -> None:
    setting = Setting(smollm2, "Hi.")
    await setting.reply(HELLO)
    length = len(setting.request.prompt_ids)
    setting.engine.max_context = length + 5
    await setting.reply(HELLO)
    assert setting.request.max_tokens == 5
    setting.engine.max_context = length
    with pytest.raises(BadRequest, match="does not fit"):
        await setting.reply(HELLO)


@pytest.mark.parametrize(
    "messages", [[], [ChatMessage("user", "  ")], [ChatMessage("system", "Be brief.")]]
)
async def test_an_empty_conversation_is_refused(
    smollm2: ChatTemplate, messages: list[ChatMessage]
) -> None:
    with pytest.raises(BadRequest, match="empty"):
        await Setting(smollm2, "Hi.").reply(messages)


async def test_with_instructions_the_assistant_may_speak_first(smollm2: ChatTemplate) -> None:
    setting = Setting(smollm2, "Welcome!")
    assert text_of(await setting.reply([], ReplyOptions(instructions="Greet."))) == "Welcome!"


async def test_an_unknown_role_is_refused(smollm2: ChatTemplate) -> None:
    with pytest.raises(BadRequest, match="robot"):
        await Setting(smollm2, "Hi.").reply([ChatMessage("robot", "Beep")])


@pytest.fixture(scope="module")
def language_host() -> Iterator[EngineHost]:
    directory = model_path("smollm2-135m-instruct")
    host = EngineHost({"lm": lambda: TokenStepEngine(load_llama(directory))}, threads=1)
    host.start()
    host.wait_ready(120)
    yield host
    host.close()


async def test_the_embedded_model_answers_briefly_and_reuses_what_it_has_read(
    language_host: EngineHost,
) -> None:
    client = HostClient(language_host)
    directory = model_path("smollm2-135m-instruct")
    responder = Responder.load(client.token_engine("lm"), directory)

    async def ask(name: str, messages: list[ChatMessage]) -> list[ReplyDelta]:
        ticket = Ticket(name, session_id="talk", timeout_s=120)
        return [delta async for delta in responder.reply(messages, ReplyOptions(40), ticket)]

    conversation = [ChatMessage("user", "What is the capital of Italy?")]
    first = await ask("first", conversation)
    conversation += [ChatMessage("assistant", text_of(first)), ChatMessage("user", "And of Spain?")]
    second = await ask("second", conversation)
    await client.close()
    assert "Rome" in text_of(first)
    assert "Madrid" in text_of(second)
    assert first[-1].finish is FinishReason.STOP
    # All but the end mark, which is never computed, and the new question is known already.
    assert second[-1].cached_tokens >= first[-1].prompt_tokens + first[-1].output_tokens - 1
