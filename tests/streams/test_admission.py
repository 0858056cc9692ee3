import pytest

from streams.admission import Admission, AdmissionConfig
from streams.config import Tier
from streams.errors import Overloaded


def test_free_traffic_leaves_room_for_paid_traffic() -> None:
    admission = Admission(AdmissionConfig(max_sessions=3, paid_reserve=1, retry_after_s=7))
    admission.admit("a", Tier.FREE)
    admission.admit("b", Tier.FREE)
    with pytest.raises(Overloaded) as refused:
        admission.admit("c", Tier.FREE)
    assert refused.value.retry_after_s == 7
    admission.admit("d", Tier.PAID)
    with pytest.raises(Overloaded):
        admission.admit("e", Tier.PAID)


def test_released_place_is_given_again() -> None:
    admission = Admission(AdmissionConfig(max_sessions=1, paid_reserve=0))
    admission.admit("a", Tier.FREE)
    assert not admission.has_room
    admission.release("a")
    admission.release("a")
    assert admission.has_room
    admission.admit("b", Tier.FREE)
    assert admission.open_sessions == 1


def test_draining_server_lets_nobody_in() -> None:
    admission = Admission(AdmissionConfig())
    admission.drain()
    assert not admission.has_room
    with pytest.raises(Overloaded):
        admission.admit("a", Tier.PAID)


def test_server_with_one_place_serves_free_traffic() -> None:
    admission = Admission(AdmissionConfig(max_sessions=1, paid_reserve=5))
    admission.admit("a", Tier.FREE)
