"""The keys of the viewer, what they do, and its style sheet."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

LINE = "? help  q quit  ↑↓ prompt  ←→ sample  : go to  / search  o sort  v m t filter  x all"
HELP = """\
[b]Move[/b]
↑ ↓  k j     previous prompt, next prompt
← →  h l     previous completion, next completion
n  N         next, previous of all completions
home end     first prompt, last prompt (also g G)
:            go to an id, a part of one, or #number
space b      scroll the text (also PgDn PgUp)
\\[ ]          previous, next evaluation of a run

[b]Choose[/b]
o  O         sort by the next figure; the other way round
/            search prompts, completions and answers
v            right, wrong, without verdict, all
m            prompts that are partly, all, never right{pair}
t  s         truncated or not; the next status
x            all, no filter

[b]See[/b]
p            the list of prompts, full screen or hidden
c            tokens by log-prob, by entropy, plain
i            the prompt's images: drawn, or their files
{tab}q            quit                             Esc closes this"""
PAIR = ",\n             gained, lost, in both, in one alone"
TAB = "tab          the other side: ← → space \\[ ] c are its keys\n"

CSS = """
Screen { layers: base; }
#top, #keys, #legend { height: 1; width: 100%; text-wrap: nowrap; text-overflow: ellipsis; }
#top { text-style: bold reverse; }
#list { width: 26; border-right: solid $foreground 30%; scrollbar-size-vertical: 0; }
.pair #list { width: 34; }
.facts { height: 4; text-wrap: nowrap; text-overflow: ellipsis; }
.heading { height: 1; display: none; }
.pair .heading { display: block; }
.side { padding: 0 0 0 1; width: 1fr; }
.text { scrollbar-size-vertical: 1; }
#legend, #ask { display: none; }
#ask { height: 1; border: none; padding: 0; }
.narrow #list, .pair.wide #list, .listing #list { display: none; }
.narrow.listing #list, .pair.wide.listing #list { display: block; width: 1fr; border-right: none; }
.narrow.listing .side, .pair.wide.listing .side, .narrow .inactive { display: none; }
Help { align: center middle; }
Help VerticalScroll { width: 66; max-width: 100%; height: auto; max-height: 100%;
                      border: round $foreground; padding: 0 1; }
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
    Binding("colon", "ask('go')"),
    Binding("space,pagedown", "scroll(1)"),
    Binding("b,pageup", "scroll(-1)"),
    Binding("left_square_bracket", "folder(-1)"),
    Binding("right_square_bracket", "folder(1)"),
    Binding("slash", "ask('search')"),
    Binding("escape", "leave"),
    Binding("o", "sort"),
    Binding("O", "turn"),
    Binding("v", "verdict"),
    Binding("m", "group"),
    Binding("t", "truncated"),
    Binding("s", "status"),
    Binding("c", "colour"),
    Binding("i", "images"),
    Binding("x", "clear"),
    Binding("p", "listing"),
    Binding("enter", "listing(False)"),
    Binding("tab", "side", priority=True),
    Binding("question_mark", "help"),
    Binding("q", "quit"),
    Binding("ctrl+c", "quit", priority=True),
]
ASKED = {
    "search": "search; Enter",
    "go": "id, part of an id, or #number; Enter",
}


class Help(ModalScreen[None]):
    """The keys."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,question_mark,enter", "dismiss")]

    def __init__(self, *, pair: bool) -> None:
        super().__init__()
        self._text = HELP.format(pair=PAIR if pair else "", tab=TAB if pair else "")

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(self._text)
