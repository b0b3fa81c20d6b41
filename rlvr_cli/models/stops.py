"""Stop strings: the one rule for where a completion ends, for every engine.

A completion ends with the token that completes a stop string in its text; special tokens are part
of that text. Its tokens stay as they were sampled, with their log-probs, so what is in that
last token after the string is still among the tokens: only the text leaves it out.
"""

from typing import Any

from rlvr_cli.errors import UsageError
from rlvr_cli.protocols import Completion
from rlvr_cli.specs import grammar, option_types

_MORE = 4  # tokens of a window before the string: a decoder may strip the first one's space


def read(value: str) -> tuple[str, ...]:
    """The strings of an option: one as it is, a JSON string, or a list as in `["\\n\\n",Q:]`."""
    if not value:
        return ()
    strings: list[Any] = [value]
    if value[0] in '"[':
        (_, item), *more = grammar.read(f"stop:value={value}").options
        strings = item if isinstance(item, list) else [item]
        if more or not all(isinstance(text, str) for text in strings):
            raise UsageError(f"--stop is `{value}`", 'write it as in --stop \'["\\n\\n","Q:"]\'')
    if not all(strings):
        raise UsageError(f"--stop is `{value}`, with an empty string", "leave that string out")
    return tuple(dict.fromkeys(map(str, strings)))


def spell(strings: tuple[str, ...]) -> str:
    """The strings as `read` reads them, in one way."""
    if len(strings) == 1 and strings[0][0] not in '"[':
        return strings[0]
    return option_types.spell(list(map(grammar.Quoted, strings)), list[str]) if strings else ""


class StopStrings:
    """Finds where the text of sampled tokens completes one of some strings."""

    def __init__(self, tokenizer: Any, strings: tuple[str, ...]) -> None:
        self._tokenizer, self._strings = tokenizer, strings
        self.window = max((len(text.encode()) for text in strings), default=0) + _MORE
        last = {text[-1] for text in strings}
        self._filter = all(char.isascii() and not char.isspace() for char in last)
        self._last, self._may_end = last, dict[int, bool]()

    def __bool__(self) -> bool:
        return bool(self._strings)

    def ends(self, token_ids: list[int]) -> bool:
        """Whether the last of these tokens completes a string."""
        return self._possible(token_ids[-1]) and self._first(self._text(token_ids)) is not None

    def completes(self, token_ids: list[int]) -> bool:
        """Whether these tokens end with one that completes a string; False without strings."""
        return bool(self._strings) and bool(token_ids) and self.ends(token_ids[-self.window :])

    def _possible(self, token: int) -> bool:
        """False of a token whose own text has no string's last character: most have none."""
        if not self._filter:
            return True
        if token not in self._may_end:
            self._may_end[token] = not self._last.isdisjoint(self._text([token]))
        return self._may_end[token]

    def _text(self, token_ids: list[int]) -> str:
        """The text of the last tokens, as many as the longest string can have."""
        text: str = self._tokenizer.decode(token_ids[-self.window :], skip_special_tokens=False)
        return text

    def _first(self, text: str) -> int | None:
        """Where the first string to end ends in a text."""
        ends = [at + len(s) for s in self._strings if (at := text.find(s)) >= 0]
        return min(ends, default=None)

    def cut(self, completion: Completion) -> Completion:
        """The completion up to the first token that completes a string, and itself without one."""
        token_ids = completion.token_ids
        if not self._strings:
            return completion
        for size in range(1, len(token_ids) + 1):
            if self.ends(token_ids[max(0, size - self.window) : size]):
                logps, policy = completion.behaviour_logp, completion.policy_logp
                return Completion(token_ids[:size], logps[:size], "stop", policy and policy[:size])
        return completion

    def trimmed(self, text: str, token_ids: list[int]) -> str:
        """A completion's text without the part of its last token that follows the stop string."""
        if not token_ids or not self._strings or not self.ends(token_ids):
            return text
        window = self._text(token_ids)
        end = self._first(window)
        return text.removesuffix(window[end:]) if end is not None and window[end:] else text


class StopScan:
    """Follows rows of tokens as they are sampled."""

    def __init__(self, stop: StopStrings) -> None:
        self._stop = stop
        self._tokens: dict[Any, list[int]] = {}

    def add(self, row: Any, last: list[int], count: int) -> int | None:
        """The number of tokens after which a row ends; None if it continues.

        It has `count` tokens by now, and `last` ends with those that are new.
        """
        seen = self._tokens.setdefault(row, [])
        for token in last[len(last) - (count - len(seen)) :]:
            seen.append(token)
            if self._stop.ends(seen):
                return len(self._tokens.pop(row))
        return None

    def forget(self, row: Any) -> None:
        self._tokens.pop(row, None)
