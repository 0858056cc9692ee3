import os

import pytest

from antiphon import cores
from antiphon.cores import engine_threads, usable_cores


def test_cores_are_those_this_process_may_run_on_not_those_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert usable_cores() == 3


def test_system_that_tells_nothing_counts_as_one_core(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert usable_cores() == 1


@pytest.mark.parametrize(("available", "threads"), [(1, 1), (2, 1), (8, 7)])
def test_engines_leave_a_core_to_the_gateway_where_there_is_one(
    available: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "usable_cores", lambda: available)
    assert engine_threads(None) == threads


def test_configured_number_of_threads_counts_before_all() -> None:
    assert engine_threads(5) == 5
