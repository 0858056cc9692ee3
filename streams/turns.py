"""Turn-taking as pure decisions: what to do when speech starts, ends, or becomes text.

The `immediate` policy: a speaker who starts during a reply ends it at once. It knows
nothing of audio, tasks or engines; the session performs the actions.
"""

from dataclasses import dataclass
from enum import StrEnum

from streams.config import SessionConfig


class TurnAction(StrEnum):
    """Says what the session has to do."""

    INTERRUPT = "interrupt"  # stop the reply that is being made or heard
    RESPOND = "respond"  # make a reply to the conversation as it stands


@dataclass(slots=True)
class TurnTaking:
    """Follows one conversation.

    Attributes:
        speaking: the speaker's turn is open.
        owes_reply: a turn with words has ended and was not answered yet.
    """

    speaking: bool = False
    owes_reply: bool = False

    def speech_started(self, config: SessionConfig, *, audible: bool) -> list[TurnAction]:
        """Opens a turn. `audible`: a reply is being made or is still being heard."""
        self.speaking = True
        detection = config.turn_detection
        if audible and detection is not None and detection.interrupt_response:
            return [TurnAction.INTERRUPT]
        return []

    def speech_stopped(self) -> None:
        """Closes the turn; its words are not known yet."""
        self.speaking = False

    def transcribed(self, config: SessionConfig, text: str, *, by_client: bool) -> None:
        """Takes the words of a turn that has ended.

        Args:
            config: the session's configuration now.
            text: the final transcript; empty where nobody spoke, which is never answered.
            by_client: the client committed the turn itself and asks for a reply itself.
        """
        detection = config.turn_detection
        if text and config.respond and detection is not None and not by_client:
            self.owes_reply = self.owes_reply or detection.create_response

    def due(self, *, replying: bool) -> list[TurnAction]:
        """Answers once nobody speaks: who goes on talking is answered as a whole."""
        if not self.owes_reply or self.speaking or replying:
            return []
        self.owes_reply = False
        return [TurnAction.RESPOND]
