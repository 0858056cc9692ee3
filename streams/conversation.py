"""What a session remembers: items in order, and of spoken replies only what was heard."""

from dataclasses import replace

from streams.errors import AntiphonError, SessionErrorCode
from streams.events import Item, ItemStatus, Part, PartKind, Role
from streams.spoken_text import SpokenText

FRONT = "root"
"""The `previous_item_id` that puts an item first (OpenAI Realtime)."""


class Refused(AntiphonError):
    """Is an event that the conversation cannot take; the session goes on."""

    def __init__(self, code: SessionErrorCode, message: str, *, param: str = "item_id") -> None:
        super().__init__(message, param=param)
        self.code = code


class Conversation:
    """Holds the items of one session.

    Args:
        max_items, max_chars: the oldest items are forgotten past this many items or
            characters of text, so that a session that lives for hours does not grow.
    """

    def __init__(self, max_items: int = 512, max_chars: int = 200_000) -> None:
        self._max_items = max_items
        self._max_chars = max_chars
        self._items: list[Item] = []
        self._speech: dict[str, SpokenText] = {}
        self._heard_ms: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._items)

    def get(self, item_id: str) -> Item:
        """Returns an item. Raises `Refused` for an unknown id."""
        return self._items[self._index(item_id)]

    def previous_of(self, item_id: str) -> str | None:
        """Returns the id of the item before this one; None for the first."""
        index = self._index(item_id)
        return self._items[index - 1].item_id if index else None

    def previous_or_none(self, item_id: str) -> str | None:
        """Returns the id of the item before this one; None also if the item is gone."""
        return self.previous_of(item_id) if self._knows(item_id) else None

    def add(self, item: Item, previous_item_id: str | None = None) -> str | None:
        """Inserts an item after another one and returns its true predecessor.

        Raises:
            Refused: the id exists, or the predecessor does not.
        """
        if self._knows(item.item_id):
            message = f"an item with the id '{item.item_id}' exists already"
            raise Refused(SessionErrorCode.DUPLICATE_ITEM, message, param="item.id")
        if _chars(item) > self._max_chars:
            message = f"an item holds at most {self._max_chars} characters"
            raise Refused(SessionErrorCode.INVALID, message, param="item.content")
        if previous_item_id is None:
            self._items.append(item)
        elif previous_item_id == FRONT:
            self._items.insert(0, item)
        else:
            self._items.insert(self._index(previous_item_id, "previous_item_id") + 1, item)
        previous = self.previous_of(item.item_id)
        while len(self._items) > self._max_items or self._all_chars() > self._max_chars:
            oldest = self._items[0 if self._items[0].item_id != item.item_id else 1]
            self.delete(oldest.item_id)
        return previous

    def replace(self, item: Item) -> None:
        """Puts a newer version in the place of an item; does nothing if it is gone."""
        for index, known in enumerate(self._items):
            if known.item_id == item.item_id:
                self._items[index] = item

    def delete(self, item_id: str) -> None:
        """Forgets an item; its id is free again. Raises `Refused` for an unknown id."""
        del self._items[self._index(item_id)]
        self._speech.pop(item_id, None)
        self._heard_ms.pop(item_id, None)

    def begin_speech(self, item_id: str) -> SpokenText:
        """Notes that the item is spoken, and returns where its audio is noted."""
        return self._speech.setdefault(item_id, SpokenText())

    def spoken_ms(self, item_id: str) -> float:
        """Returns how much audio the item has."""
        speech = self._speech.get(item_id)
        return speech.duration_ms if speech else 0.0

    def truncate(self, item_id: str, heard_ms: float) -> float:
        """Remembers only what was heard and returns the position, clamped to the audio.

        A later, better report replaces an earlier one. Raises `Refused` for an unknown id
        or an item without audio of ours.
        """
        item = self.get(item_id)
        if item.role is not Role.ASSISTANT or item_id not in self._speech:
            message = f"item '{item_id}' has no assistant audio to truncate"
            raise Refused(SessionErrorCode.NOT_AUDIO, message)
        heard_ms = min(max(heard_ms, 0.0), self.spoken_ms(item_id))
        self._heard_ms[item_id] = heard_ms
        return heard_ms

    def truncate_if_present(self, item_id: str, heard_ms: float) -> None:
        """Truncates an item unless it was deleted meanwhile."""
        if self._knows(item_id):
            self.truncate(item_id, heard_ms)

    def remembered_text(self, item: Item) -> str:
        """Returns the text of an item as the model is to see it."""
        if item.item_id in self._heard_ms:
            return self._speech[item.item_id].heard(self._heard_ms[item.item_id])
        return " ".join(part.text for part in item.parts if part.text).strip()

    def remembered(self, item_id: str) -> Item:
        """Returns an item with the text that is remembered of it."""
        item = self.get(item_id)
        if item_id not in self._heard_ms:
            return item
        part = Part(PartKind.AUDIO, self.remembered_text(item))
        return replace(item, parts=(part,), status=ItemStatus.INCOMPLETE)

    def messages(self) -> list[tuple[Role, str]]:
        """Returns (role, text) of all items that have text, oldest first."""
        pairs = [(item.role, self.remembered_text(item)) for item in self._items]
        return [(role, text) for role, text in pairs if text]

    def _all_chars(self) -> int:
        return sum(_chars(item) for item in self._items)

    def _knows(self, item_id: str) -> bool:
        return any(item.item_id == item_id for item in self._items)

    def _index(self, item_id: str, param: str = "item_id") -> int:
        for index, item in enumerate(self._items):
            if item.item_id == item_id:
                return index
        message = f"there is no item with the id '{item_id}'"
        raise Refused(SessionErrorCode.UNKNOWN_ITEM, message, param=param)


def _chars(item: Item) -> int:
    return sum(len(part.text) for part in item.parts if part.text)
