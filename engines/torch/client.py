"""The asyncio side of the engine host: requests in, awaited results out.

Every request is owned by the task that iterates over its results. When that task stops
early, for whatever reason, an abort is on its way before anything else is awaited.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress

from engines.base import Capabilities, EngineStats
from engines.errors import AntiphonError, BadRequest, EngineFailed, NotFound, Timeout
from engines.torch.facades import TokenFacade, TranscribeFacade, VadFacade, WaveformFacade
from engines.torch.host import EngineHost
from engines.torch.messages import Abort, Delivery, FromHost, HostDown, Playout, Submit
from engines.torch.step_engine import Output, Request

logger = logging.getLogger(__name__)

_Key = tuple[str, str]
"""Engine name and request id."""

_CLOSED = "The connection to the engine host is closed."


class HostClient:
    """Connects the running event loop to a host; made and used on that loop only.

    Args:
        host: the host; it has one client at a time.
        grace_s: added to every ticket's time-out, so that the engine's own, more exact
            `Timeout` comes first; also how long an abort waits to be confirmed, which must
            be longer than the longest step.
    """

    def __init__(self, host: EngineHost, grace_s: float = 5.0) -> None:
        self._host = host
        self.host_down = asyncio.Event()
        """Set once the host serves no more; whoever supervises the server waits for it."""
        self._grace_s = grace_s
        self._loop = asyncio.get_running_loop()
        # Not bounded: a request makes a bounded number of outputs (`max_tokens`), and the
        # host must never wait for a reader.
        self._waiting: dict[_Key, asyncio.Queue[Output]] = {}
        self._aborts: dict[_Key, asyncio.Future[None]] = {}
        self._closed = False
        host.connect(self._from_host)

    # ------------------------------------------------------------ engines by name

    def token_engine(self, name: str) -> TokenFacade:
        """Returns the engine as a `TokenEngine`. Raises `NotFound` for an unknown name."""
        return TokenFacade(self, self._known(name))

    def seq2seq_engine(self, name: str) -> TranscribeFacade:
        """Returns the engine as a `Seq2SeqEngine`. Raises `NotFound` for an unknown name."""
        return TranscribeFacade(self, self._known(name))

    def vad_engine(self, name: str) -> VadFacade:
        """Returns it as a `VoiceActivityEngine`. Raises `NotFound` for an unknown name."""
        return VadFacade(self, self._known(name))

    def waveform_engine(self, name: str) -> WaveformFacade:
        """Returns the engine as a `WaveformEngine`. Raises `NotFound` for an unknown name."""
        return WaveformFacade(self, self._known(name))

    def capabilities(self, name: str) -> Capabilities:
        return self._host.capabilities[self._known(name)]

    def stats(self, name: str) -> EngineStats:
        """Returns the latest snapshot of an engine's work."""
        return self._host.stats(self._known(name))

    # ------------------------------------------------------------ requests

    async def stream(self, engine: str, request: Request) -> AsyncGenerator[object, None]:
        """Yields what the engine makes for a request, until its end or somebody's abort.

        Closing the generator aborts the request and returns once it is gone.

        Raises:
            Timeout: the ticket's time and the grace are over.
            EngineFailed: the host went down.
            AntiphonError: whatever the engine answered.
        """
        ticket = request.ticket
        key = (engine, ticket.request_id)
        if self._closed:
            raise EngineFailed(_CLOSED)
        if key in self._waiting:
            raise BadRequest(f"Request {ticket.request_id} is already running.")
        results: asyncio.Queue[Output] = asyncio.Queue()
        self._waiting[key] = results
        deadline_s = self._loop.time() + ticket.timeout_s + self._grace_s
        ended = False
        try:
            self._host.send(Submit(engine, request))
            while not ended:
                output = await _next(results, deadline_s)
                ended = output.last or output.error is not None
                if output.error is not None:
                    raise output.error
                if output.payload is not None:
                    yield output.payload
        finally:
            del self._waiting[key]
            if not ended:
                await self._abort_in_cleanup(engine, ticket.request_id)

    async def call(self, engine: str, request: Request) -> object:
        """Returns the one result of a request; cancelling the await aborts it."""
        async with aclosing(self.stream(engine, request)) as results:
            async for payload in results:
                return payload
        raise EngineFailed("The request was aborted before it had a result.")

    def tell(self, message: Playout) -> None:
        """Passes a message on that has no answer; a host that is down does not need it."""
        if not self._closed:
            with suppress(EngineFailed):
                self._host.send(message)

    async def abort(self, engine: str, request_id: str) -> None:
        """Ends a request and returns once it is gone; does nothing if it is not running.

        The message is sent before the first await: cancelling this call loses only the
        confirmation.

        Raises:
            Timeout: the host did not confirm in time; the abort still stands.
        """
        if self._closed:
            return  # closing has ended everything
        key = (engine, request_id)
        gone = self._aborts.get(key)
        if gone is None:
            try:
                self._host.send(Abort(engine, request_id))
            except EngineFailed:
                return  # nothing runs in a host that is down
            gone = self._aborts[key] = self._loop.create_future()
        await asyncio.wait((gone,), timeout=self._grace_s)
        if not gone.done():
            raise Timeout("The engine did not confirm the abort in time.")

    async def close(self) -> None:
        """Ends all requests of this client and leaves the host to the next one."""
        if self._closed:
            return
        running = tuple(self._waiting)
        await asyncio.gather(*(self.abort(*key) for key in running), return_exceptions=True)
        self._closed = True
        self._host.disconnect()
        self._end_all(EngineFailed(_CLOSED))

    # ------------------------------------------------------------ inside

    def _known(self, name: str) -> str:
        if name not in self._host.capabilities:
            raise NotFound(f"No engine is called {name}.")
        return name

    async def _abort_in_cleanup(self, engine: str, request_id: str) -> None:
        try:
            await self.abort(engine, request_id)
        except Timeout:  # must not hide why the request ended
            logger.warning("abort of %s in %s is not confirmed yet", request_id, engine)

    def _from_host(self, message: FromHost) -> None:
        """Runs on the host's thread."""
        self._loop.call_soon_threadsafe(self._dispatch, message)

    def _dispatch(self, message: FromHost) -> None:
        match message:
            case Delivery(engine, outputs, aborted):
                for output in outputs:
                    self._put((engine, output.request_id), output)
                for request_id in aborted:
                    self._confirm((engine, request_id))
            case HostDown(error):
                self.host_down.set()
                self._end_all(error)

    def _put(self, key: _Key, output: Output) -> None:
        # Results of a request whose reader has gone have nowhere to go.
        if (results := self._waiting.get(key)) is not None:
            results.put_nowait(output)

    def _confirm(self, key: _Key) -> None:
        self._put(key, Output(key[1], last=True))
        if (gone := self._aborts.pop(key, None)) is not None and not gone.done():
            gone.set_result(None)

    def _end_all(self, error: AntiphonError) -> None:
        for key in self._waiting:
            # One error each: a traceback belongs to one task.
            self._put(key, Output(key[1], last=True, error=EngineFailed(error.message)))
        for key in tuple(self._aborts):
            self._confirm(key)


async def _next(results: asyncio.Queue[Output], deadline_s: float) -> Output:
    try:
        async with asyncio.timeout_at(deadline_s):
            return await results.get()
    except TimeoutError as cause:
        raise Timeout("The engine did not answer in time.") from cause
