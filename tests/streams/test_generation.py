from streams.generation import GenerationCounter


def test_only_the_newest_generation_may_deliver() -> None:
    counter = GenerationCounter()
    first = counter.advance()
    assert not counter.is_stale(first)
    second = counter.advance()
    assert counter.is_stale(first)
    assert not counter.is_stale(second)
    assert counter.current == second
