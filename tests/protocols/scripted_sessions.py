"""A session core at the border: it records what it gets and says what a test wants."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from streams.config import SessionConfig, Tier
from streams.errors import AntiphonError
from streams.events import SessionClosed, SessionInput, SessionOutput, SessionStarted

Answer = Callable[[SessionInput], Iterable[SessionOutput]]


@dataclass
class ScriptedSession:
    """Implements `SessionHandle`: `answer` says what follows each input."""

    config: SessionConfig
    answer: Answer
    received: list[SessionInput] = field(default_factory=list)
    closes: int = 0
    freed: asyncio.Event = field(default_factory=asyncio.Event)
    _outputs: "asyncio.Queue[SessionOutput]" = field(default_factory=asyncio.Queue)

    def say(self, *outputs: SessionOutput) -> None:
        for output in outputs:
            self._outputs.put_nowait(output)

    async def send(self, event: SessionInput) -> None:
        self.received.append(event)
        self.say(*self.answer(event))

    async def outputs(self) -> AsyncIterator[SessionOutput]:
        while True:
            output = await self._outputs.get()
            yield output
            if isinstance(output, SessionClosed):
                return

    async def close(self) -> None:
        self.closes += 1
        self.freed.set()


@dataclass
class ScriptedFactory:
    """Implements `SessionFactory`; `refusal` is raised instead of opening a session."""

    answer: Answer = lambda event: ()
    refusal: AntiphonError | None = None
    sessions: list[ScriptedSession] = field(default_factory=list)
    opened: list[dict[str, Any]] = field(default_factory=list)

    async def open(
        self,
        config: SessionConfig,
        *,
        protocol: str,
        tenant: str,
        tier: Tier,
        telephony: bool = False,
    ) -> ScriptedSession:
        if self.refusal is not None:
            raise self.refusal
        self.opened.append(
            {"protocol": protocol, "tenant": tenant, "tier": tier, "telephony": telephony}
        )
        session = ScriptedSession(config, self.answer)
        session.say(SessionStarted("sess_0123456789abcdef", config))
        self.sessions.append(session)
        return session
