import pytest

from streams.conversation import FRONT, Conversation, Refused
from streams.errors import SessionErrorCode
from streams.events import Item, ItemStatus, Part, PartKind, Role


def text_item(item_id: str, text: str, role: Role = Role.USER) -> Item:
    return Item(item_id, role, (Part(PartKind.TEXT, text),))


def spoken_reply(conversation: Conversation, clauses: list[tuple[str, float]]) -> None:
    conversation.add(Item("reply", Role.ASSISTANT, (), ItemStatus.IN_PROGRESS))
    speech = conversation.begin_speech("reply")
    for display, duration_ms in clauses:
        speech.begin(display)
        speech.extend(duration_ms)
    text = "".join(display for display, _ in clauses)
    conversation.replace(Item("reply", Role.ASSISTANT, (Part(PartKind.AUDIO, text),)))


def test_items_keep_their_order_and_know_their_predecessor() -> None:
    conversation = Conversation()
    assert conversation.add(text_item("a", "one")) is None
    assert conversation.add(text_item("b", "two")) == "a"
    assert conversation.add(text_item("c", "zero"), FRONT) is None
    assert conversation.add(text_item("d", "between"), "a") == "a"
    assert [text for _, text in conversation.messages()] == ["zero", "one", "between", "two"]


def test_duplicate_id_is_refused_and_free_again_after_delete() -> None:
    conversation = Conversation()
    conversation.add(text_item("a", "one"))
    with pytest.raises(Refused) as refused:
        conversation.add(text_item("a", "again"))
    assert refused.value.code is SessionErrorCode.DUPLICATE_ITEM
    conversation.delete("a")
    conversation.add(text_item("a", "again"))
    assert conversation.messages() == [(Role.USER, "again")]


@pytest.mark.parametrize("act", ["get", "delete", "previous_of"])
def test_unknown_item_is_refused(act: str) -> None:
    with pytest.raises(Refused) as refused:
        getattr(Conversation(), act)("nobody")
    assert refused.value.code is SessionErrorCode.UNKNOWN_ITEM


def test_unknown_predecessor_is_refused_and_nothing_is_added() -> None:
    conversation = Conversation()
    with pytest.raises(Refused):
        conversation.add(text_item("a", "one"), "nobody")
    assert len(conversation) == 0


def test_truncated_reply_is_remembered_only_as_far_as_it_was_heard() -> None:
    conversation = Conversation()
    spoken_reply(conversation, [("One two three.", 1000), (" Four five six.", 1000)])
    assert conversation.truncate("reply", 1700) == 1700
    assert conversation.messages() == [(Role.ASSISTANT, "One two three. Four five")]
    assert conversation.remembered("reply").status is ItemStatus.INCOMPLETE


def test_truncation_beyond_the_audio_is_clamped() -> None:
    conversation = Conversation()
    spoken_reply(conversation, [("Hello there.", 800)])
    assert conversation.truncate("reply", 5000) == 800
    assert conversation.messages() == [(Role.ASSISTANT, "Hello there.")]


def test_reply_that_was_never_heard_is_not_remembered() -> None:
    conversation = Conversation()
    spoken_reply(conversation, [("Hello there.", 800)])
    conversation.truncate("reply", 0)
    assert conversation.messages() == []


def test_later_report_replaces_an_earlier_one() -> None:
    conversation = Conversation()
    spoken_reply(conversation, [("One two three four.", 2000)])
    conversation.truncate("reply", 500)
    conversation.truncate("reply", 2000)
    assert conversation.messages() == [(Role.ASSISTANT, "One two three four.")]


def test_truncating_what_was_never_spoken_is_refused() -> None:
    conversation = Conversation()
    conversation.add(text_item("a", "typed", Role.ASSISTANT))
    with pytest.raises(Refused) as refused:
        conversation.truncate("a", 100)
    assert refused.value.code is SessionErrorCode.NOT_AUDIO


def test_oldest_items_are_forgotten_past_the_bound() -> None:
    conversation = Conversation(max_items=3)
    for number in range(10):
        conversation.add(text_item(f"i{number}", str(number)))
    assert [text for _, text in conversation.messages()] == ["7", "8", "9"]


def test_oldest_items_are_forgotten_past_the_bound_of_text() -> None:
    conversation = Conversation(max_chars=100)
    for number in range(5):
        conversation.add(text_item(f"i{number}", str(number) * 30))
    assert [text[0] for _, text in conversation.messages()] == ["2", "3", "4"]


def test_item_that_is_longer_than_all_that_is_remembered_is_refused() -> None:
    conversation = Conversation(max_chars=100)
    with pytest.raises(Refused) as refused:
        conversation.add(text_item("a", "x" * 101))
    assert refused.value.code is SessionErrorCode.INVALID
    assert len(conversation) == 0
