"""Audio to the telephone network: whole 20 ms frames, and marks that tell what was played.

The network plays what it gets in order and sends a mark back when it reaches it, or at once
after a clear; the names say which reply and which step of it they belong to. The session
paces its audio, so nothing is held back here but the rest of a frame.
"""

from dataclasses import dataclass, field

from protocols.audio_formats import Encoding, Samples, encode

RATE_HZ = 8_000
FRAME_SAMPLES = 160  # 20 ms; one byte each in mu-law
FRAME_MS = 20
FRAMES_PER_MARK = 10
"""A mark at least every 200 ms: the remembered reply is cut to this exactly."""

MU_LAW_SILENCE = b"\xff"
MAX_MARKS = 4_096
"""Marks on their way; a network that never answers them must not grow our memory. More
than ten minutes of audio, which the network itself would not keep."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Is 20 ms of mu-law."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Mark:
    """Is a point in the audio that comes back once it was played."""

    name: str


@dataclass(frozen=True, slots=True)
class Played:
    """Says how much of an item has been played when its mark comes back."""

    item_id: str
    played_ms: int


@dataclass(slots=True)
class _Reply:
    response_id: str
    item_id: str
    number: int
    rest: bytes = b""
    frames: int = 0
    audio_samples: int = 0
    marks: int = 0
    marked_frames: int = 0


@dataclass(slots=True)
class Playback:
    """Cuts replies into frames and keeps the marks that are on their way."""

    _reply: _Reply | None = None
    _replies: int = 0
    _marks: dict[str, Played] = field(default_factory=dict)

    def push(self, response_id: str, item_id: str, samples: Samples) -> list[Frame | Mark]:
        """Returns what to send of a reply's audio, at `RATE_HZ`; a rest waits."""
        reply = self._current(response_id, item_id)
        reply.audio_samples += len(samples)
        data = reply.rest + encode(samples, Encoding.MULAW)
        whole = len(data) - len(data) % FRAME_SAMPLES
        reply.rest = data[whole:]
        return self._framed(reply, data[:whole])

    def finish(self, response_id: str) -> list[Frame | Mark]:
        """Returns the last frame of a reply, filled with silence, and its last mark."""
        reply = self._reply
        if reply is None or reply.response_id != response_id:
            return []
        self._reply = None
        filled = reply.rest.ljust(FRAME_SAMPLES, MU_LAW_SILENCE) if reply.rest else b""
        sent = self._framed(reply, filled)
        if reply.frames > reply.marked_frames:
            sent.append(self._mark(reply))
        return sent

    def clear(self) -> None:
        """Forgets the reply and every mark: after a clear they come back unplayed."""
        self._reply = None
        self._marks.clear()

    def returned(self, name: str) -> Played | None:
        """Takes a mark that came back; None where it is unknown or was cleared."""
        return self._marks.pop(name, None)

    def _current(self, response_id: str, item_id: str) -> _Reply:
        if self._reply is None or self._reply.response_id != response_id:
            self._replies += 1
            self._reply = _Reply(response_id, item_id, self._replies)
        return self._reply

    def _framed(self, reply: _Reply, data: bytes) -> list[Frame | Mark]:
        sent: list[Frame | Mark] = []
        for at in range(0, len(data), FRAME_SAMPLES):
            sent.append(Frame(data[at : at + FRAME_SAMPLES]))
            reply.frames += 1
            if reply.frames - reply.marked_frames >= FRAMES_PER_MARK:
                sent.append(self._mark(reply))
        return sent

    def _mark(self, reply: _Reply) -> Mark:
        reply.marks += 1
        reply.marked_frames = reply.frames
        name = f"r{reply.number}-s{reply.marks}"
        # The filling of the last frame is not part of what was said.
        spoken_ms = reply.audio_samples * 1000 // RATE_HZ
        if len(self._marks) >= MAX_MARKS:
            del self._marks[next(iter(self._marks))]
        self._marks[name] = Played(reply.item_id, min(reply.frames * FRAME_MS, spoken_ms))
        return Mark(name)
