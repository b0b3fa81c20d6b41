"""The keys of the viewer, what they do, and its style sheet."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

LINE = "↑↓ prompt  ←→ sample  / search  v verdict  c colour  x all  ? help  q quit"
HELP = """\
[b]Move[/b]
  ↑ ↓  or  k j        previous prompt, next prompt
  ← →  or  h l        previous completion, next completion
  n  N                next, previous of all completions
  home end            first prompt, last prompt
  space b  PgDn PgUp  scroll the text
  \\[ ]                 previous, next evaluation of a run

[b]Choose[/b]
  /   search prompts, completions and answers; Enter
  v   right, wrong, without verdict, all
  t   truncated, not truncated, all
  s   the next status
  x   all, no filter

[b]See[/b]
  c   tokens by log-prob, by entropy, plain
  q   quit                                 Esc closes this"""

CSS = """
Screen { layers: base; }
#top, #keys, #legend { height: 1; width: 100%; text-wrap: nowrap; text-overflow: ellipsis; }
#top { text-style: bold reverse; }
#list { width: 26; border-right: solid $foreground 30%; scrollbar-size-vertical: 0; }
#facts { height: 4; text-wrap: nowrap; text-overflow: ellipsis; }
#right { padding: 0 0 0 1; }
#text { scrollbar-size-vertical: 1; }
#legend, #search { display: none; }
#search { height: 1; border: none; padding: 0; }
.narrow #list { display: none; }
Help { align: center middle; }
Help Static { width: 64; height: auto; border: round $foreground; padding: 0 1; }
"""

BINDINGS: list[BindingType] = [
    Binding("down,j", "prompt(1)"),
    Binding("up,k", "prompt(-1)"),
    Binding("home,g", "edge(0)"),
    Binding("end,G", "edge(-1)"),
    Binding("right,l", "sample(1)"),
    Binding("left,h", "sample(-1)"),
    Binding("n", "row(1)"),
    Binding("N", "row(-1)"),
    Binding("space,pagedown", "scroll(1)"),
    Binding("b,pageup", "scroll(-1)"),
    Binding("left_square_bracket", "folder(-1)"),
    Binding("right_square_bracket", "folder(1)"),
    Binding("slash", "search"),
    Binding("escape", "leave"),
    Binding("v", "verdict"),
    Binding("t", "truncated"),
    Binding("s", "status"),
    Binding("c", "colour"),
    Binding("x", "clear"),
    Binding("question_mark", "help"),
    Binding("q", "quit"),
]


class Help(ModalScreen[None]):
    """The keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss")]

    def compose(self) -> ComposeResult:
        yield Static(HELP)
