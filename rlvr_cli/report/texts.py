"""Texts that are safe to show, cut to a length, and set as far as a page's limit goes."""

from dataclasses import dataclass

from rlvr_cli.report import typeset
from rlvr_cli.terminal.escape import shown


@dataclass(frozen=True)
class Text:
    """A text, or its beginning and its end; with both as HTML where they are set."""

    head: str
    left_out: int = 0  # characters between head and tail
    tail: str = ""
    head_html: str | None = None
    tail_html: str | None = None

    def packed(self) -> str | list[str | int | None]:
        """The values in order without the empty ones at the end; of a plain text only the head."""
        values: list[str | int | None] = [
            self.head, self.left_out, self.tail, self.head_html, self.tail_html
        ]  # fmt: skip
        while len(values) > 1 and not values[-1]:
            values.pop()
        return values if len(values) > 1 else self.head


class Setter:
    """Sets texts until `most` characters are set; counts those that stay raw for that."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.reset()

    def reset(self) -> None:
        """Starts again, with nothing allowed yet."""
        self.allowed, self.used, self.raw = 0.0, 0, 0
        self._known: dict[str, str | None] = {}  # a text that comes again costs nothing

    def allow(self, characters: float) -> None:
        """Allows this many more; later texts may use what is left over."""
        self.allowed += characters

    def text(self, text: str, most: int) -> Text:
        """The text, cut in its middle to `most` characters: the answer is at the end."""
        if len(text) > most:
            tail = most // 3
            head, tail_text = shown(text[: most - tail]), shown(text[len(text) - tail :])
            left_out = len(text) - most
        else:
            head, tail_text, left_out = shown(text), "", 0
        new = sum(len(part) for part in {head, tail_text} if part not in self._known)
        if self.used + new > self.allowed:
            self.raw += 1
            return Text(head, left_out, tail_text)
        self.used += new
        set_head, set_tail = self._set(head), self._set(tail_text)
        if set_head is None and set_tail is None:
            return Text(head, left_out, tail_text)
        plain = [typeset.paragraphs(head), typeset.paragraphs(tail_text)]
        return Text(head, left_out, tail_text, set_head or plain[0], set_tail or plain[1])

    def _set(self, text: str) -> str | None:
        if text not in self._known:
            self._known[text] = typeset.typeset(text)
        return self._known[text]
