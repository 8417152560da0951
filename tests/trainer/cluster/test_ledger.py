"""Events of lost actors are passed on once."""

from envs.base import TextBoard
from trainer.cluster.ledger import EventLedger
from trainer.journal.events import GroupStarted, TrajectoryFinished, Turn


def started(*members):
    return GroupStarted(
        iteration=1,
        split="train",
        suite=None,
        group=0,
        environment="Sokoban",
        seed=1,
        prompt="",
        board=TextBoard(text=""),
        hint=None,
        members=list(members),
    )


def turn(number, response="so", name="a"):
    return Turn(
        trajectory=name,
        turn=number,
        state="",
        response=response,
        thought="",
        answer="",
        format_valid=True,
        problem=None,
        actions=[],
        reward=0.5,
        terms={},
        tokens=4,
        truncated=False,
        entropy=None,
        logprob=None,
        board=None,
        hint=None,
        claims=[],
    )


def finished(turns, end="turns", name="a"):
    return TrajectoryFinished(
        trajectory=name, success=False, end=end, total_reward=0.5 * turns, turns=turns, actions=0, tokens=4 * turns
    )


def ledger():
    passed, notices = [], []
    return EventLedger(lambda *events: passed.extend(events), notices.append), passed, notices


def test_what_is_played_again_is_passed_on_from_where_it_broke_off():
    book, passed, notices = ledger()
    book.receive([started("a"), turn(0), turn(1)])
    again = [started("a"), turn(0), turn(1), turn(2), finished(3)]
    for event in again:
        book.receive([event])
    assert [event.type for event in passed] == ["group_started", "turn", "turn", "turn", "trajectory_finished"]
    assert [event.turn for event in passed if event.type == "turn"] == [0, 1, 2]
    assert not notices


def test_another_course_is_reported():
    book, passed, notices = ledger()
    book.receive([started("a"), turn(0)])
    book.receive([started("a"), turn(0, "otherwise")])
    assert len(passed) == 2
    assert "Trajectory a took another course" in notices[0]


def test_a_stop_closes_what_is_open_with_the_turns_that_were_passed_on():
    book, passed, _ = ledger()
    book.receive([started("a", "b", "c"), turn(0), turn(1), turn(0, name="b"), finished(1, name="b")])
    book.receive([started("a", "b", "c"), turn(0), finished(1, end="interrupted")])  # played again, and stopped
    book.interrupt()
    ends = {event.trajectory: event for event in passed if event.type == "trajectory_finished"}
    assert (ends["a"].end, ends["a"].turns, ends["a"].tokens, ends["a"].total_reward) == ("interrupted", 2, 8, 1.0)
    assert ends["b"].end == "turns"
    assert (ends["c"].end, ends["c"].turns) == ("interrupted", 0)
    assert sum(event.type == "trajectory_finished" for event in passed) == 3


def test_groups_that_are_given_up_are_closed_and_named():
    book, passed, _ = ledger()
    book.receive([started("a", "b"), turn(0), finished(1)])
    assert book.close_groups({0, 7}) == {0}, "group 7 has not begun"
    ends = [(event.trajectory, event.end) for event in passed if event.type == "trajectory_finished"]
    assert ends == [("a", "turns"), ("b", "interrupted")]
    book.interrupt()
    assert len(passed) == 4, "closed once"
