"""Where the session core tells what happened, without knowing who listens."""

from typing import Protocol


class Observer(Protocol):
    """Receives facts for metrics; its methods return at once and never raise."""

    def session_opened(self, protocol: str) -> None: ...

    def session_closed(self, protocol: str, code: str) -> None:
        """`code` is a `SessionErrorCode` value, or "ok"."""
        ...

    def session_refused(self, reason: str) -> None: ...

    def stage(self, name: str, seconds: float) -> None:
        """Times a stage: endpoint, final, first_text, first_audio, voice_to_voice."""
        ...

    def response_done(self, status: str) -> None: ...

    def barge_in(self) -> None: ...

    def dropped(self, what: str, amount: int) -> None:
        """Counts what was thrown away: audio_samples, late_output, ..."""
        ...


class NullObserver:
    """Listens to nothing."""

    def session_opened(self, protocol: str) -> None:
        """Does nothing."""

    def session_closed(self, protocol: str, code: str) -> None:
        """Does nothing."""

    def session_refused(self, reason: str) -> None:
        """Does nothing."""

    def stage(self, name: str, seconds: float) -> None:
        """Does nothing."""

    def response_done(self, status: str) -> None:
        """Does nothing."""

    def barge_in(self) -> None:
        """Does nothing."""

    def dropped(self, what: str, amount: int) -> None:
        """Does nothing."""
