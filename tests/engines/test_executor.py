from engines.torch.executor import most_urgent
from engines.torch.step_engine import Urgency


def test_nothing_waits_and_nobody_is_picked():
    assert most_urgent([]) is None
    assert most_urgent([("asr", None), ("lm", None)]) is None


def test_the_earliest_due_is_picked():
    waiting = [("lm", Urgency(False, 5.0)), ("vad", Urgency(False, 1.0)), ("asr", None)]
    assert most_urgent(waiting) == "vad"


def test_batch_work_yields_to_live_work_however_late_it_is():
    assert most_urgent([("files", Urgency(True, -9.0)), ("lm", Urgency(False, 9.0))]) == "lm"


def test_of_equals_the_first_is_picked():
    same = Urgency(False, 1.0)
    assert most_urgent([("idle", None), ("b", same), ("a", same)]) == "b"
