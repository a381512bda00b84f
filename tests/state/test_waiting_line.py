"""WaitingLine: limited places, granted in the order of arrival."""

from hypothesis import given
from hypothesis import strategies as st

from pipeline_broker.state.waiting_line import WaitingLine


@given(
    places=st.integers(1, 3),
    moves=st.lists(st.tuples(st.sampled_from(["come", "leave"]), st.integers(0, 9)), max_size=60),
)
def test_places_are_limited_and_granted_in_order(places, moves):
    line, inside, waiting, arrived = WaitingLine(places), [], [], 0
    for move, pick in moves:
        if move == "come":
            token, arrived = arrived, arrived + 1
            if line.enter(token):
                assert not waiting
                inside.append(token)
            else:
                waiting.append(token)
                line.wait(token, lambda token=token: (inside.append(token), waiting.remove(token)))
        elif inside or waiting:
            token = (inside + waiting)[pick % (len(inside) + len(waiting))]
            expected = [one for one in inside + waiting if one != token]
            (inside if token in inside else waiting).remove(token)
            line.leave(token)
            assert inside + waiting == expected, "the longest waiting token gets the free place"
        assert len(inside) <= places
        assert not waiting or len(inside) == places, "a place stays empty while one waits"
        assert waiting == sorted(waiting)
        assert len(line) == len(inside) + len(waiting)
        assert {one for one in range(arrived) if one in line} == {*inside, *waiting}


def test_a_token_takes_one_place_only():
    line = WaitingLine(2)
    assert [line.enter(token) for token in "aaab"] == [True] * 4
    line.leave("a")
    assert line.enter("c")
    assert not line.enter("d")


def test_an_unknown_token_may_leave():
    line = WaitingLine(1)
    assert line.enter("a")
    line.leave("b")
    assert not line.enter("b")
    line.leave("a")
    assert line.enter("b")
