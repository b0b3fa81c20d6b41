"""A reward of a user's own: whether a completion is short."""


def short(completion, answer, extra):
    return len(completion) < 6
