"""An exploration of all states of a model, breadth first, so that the path to a bad state is a shortest one."""

from collections import deque


def explore(start, steps, complaint, states_max):
    """Visit all states that can be reached, and return their number. AssertionError has the path to a bad one.

    Args:
        steps: returns pairs of a step's name and the state after it, for a state.
        complaint: returns the broken rule of a state; None if it is good.
        states_max: a model with more states is too wide.
    """
    parents = {start: None}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        for step, after in steps(state):
            if after in parents:
                continue
            parents[after] = (step, state)
            broken = complaint(after)
            if broken is not None:
                raise AssertionError("\n".join([broken, *_path_to(after, parents)]))
            waiting.append(after)
            assert len(parents) <= states_max, "the bounds are too wide"
    return len(parents)


def _path_to(state, parents):
    path = []
    while (parent := parents[state]) is not None:
        step, state = parent
        path.append(step)
    return [f"{number}. {step}" for number, step in enumerate(reversed(path), 1)]
