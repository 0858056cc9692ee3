import pytest

from antiphon.gateway import STARTING_RETRY_S, Gateway, GatewayState
from streams.admission import AdmissionConfig
from streams.config import SessionConfig, Tier
from streams.errors import Overloaded
from streams.sessions import RunningSession, SessionManager
from tests.support.clock import settle
from tests.support.session_driver import ScriptedServer


def manager(max_sessions: int = 1) -> SessionManager:
    admission = AdmissionConfig(max_sessions=max_sessions, paid_reserve=0)
    return SessionManager(ScriptedServer().services, admission)


async def call(gateway: Gateway) -> RunningSession:
    session = await gateway.open(SessionConfig(), protocol="test", tenant="anna", tier=Tier.FREE)
    await settle()
    return session


async def test_client_who_comes_before_the_models_is_told_when_to_come_back() -> None:
    gateway = Gateway()
    assert gateway.state is GatewayState.STARTING
    assert gateway.open_sessions == 0
    with pytest.raises(Overloaded) as refused:
        await call(gateway)
    assert refused.value.retry_after_s == STARTING_RETRY_S


async def test_gateway_is_ready_then_full_and_ready_again_when_a_session_has_ended() -> None:
    gateway = Gateway()
    gateway.serve(manager())
    assert gateway.state is GatewayState.READY
    session = await call(gateway)
    assert gateway.state is GatewayState.FULL
    assert gateway.open_sessions == 1
    with pytest.raises(Overloaded):
        await call(gateway)
    await session.close()
    assert gateway.state is GatewayState.READY
    assert gateway.open_sessions == 0


async def test_closed_gateway_is_draining_and_counts_those_who_are_still_there() -> None:
    gateway = Gateway()
    gateway.serve(manager(max_sessions=4))
    session = await call(gateway)
    gateway.close()
    assert gateway.state is GatewayState.DRAINING
    assert gateway.open_sessions == 1
    await session.close()
    assert gateway.state is GatewayState.DRAINING


async def test_closed_gateway_lets_nobody_in_even_before_the_drain_begins() -> None:
    gateway = Gateway()
    gateway.serve(manager(max_sessions=4))
    gateway.close()
    with pytest.raises(Overloaded):
        await call(gateway)
