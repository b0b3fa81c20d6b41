"""Draws docs/loop.svg and docs/architecture.svg: `python -P docs/draw.py`.

The layers are those of tests/test_imports.py. Text stays text; colours follow the reader's scheme.
"""

import itertools
import re
from pathlib import Path
from xml.sax.saxutils import escape

DOCS = Path(__file__).parent
STYLE = """
  .card { fill: #ffffff; stroke: #d0d7de }
  .box { fill: #eef4ff; stroke: #4a78c0 }
  .soft { fill: #f3f4f6; stroke: #8b949e }
  .line { fill: none; stroke: #57606a; stroke-width: 1.6 }
  .head { fill: #57606a }
  text { font-family: ui-sans-serif, system-ui, Helvetica, Arial, sans-serif; fill: #1f2328 }
  .code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; font-size: 14px }
  .note { font-size: 12.5px; fill: #57606a }
  @media (prefers-color-scheme: dark) {
    .card { fill: #0d1117; stroke: #30363d }
    .box { fill: #16233b; stroke: #6a9ae0 }
    .soft { fill: #1c2128; stroke: #6e7681 }
    .line { stroke: #9aa4af }
    .head { fill: #9aa4af }
    text { fill: #e6edf3 }
    .note { fill: #9aa4af }
  }
"""

NOTES = {
    "commands": "one file a command: options in, one call, a summary out",
    "init": "a run file for a model and data; train: the stages in a loop",
    "doctor": "checks of data, models and the machine; the metrics",
    "engines": "what samples and trains; the stages that call it",
    "fixtures": "the built-in policy; the papers' small systems; the viewer",
    "algorithms": "equations, models, verifiers, files of other tools",
    "config": "the TOML file, lookup by name, shards, processes and seeds",
    "specs": "the grammar of `name:option=value`; code of the user's own",
    "__version__": "what all may use; kernels import torch and Triton alone",
}


def layers() -> list[list[str]]:
    """The packages of each layer, the highest first, as tests/test_imports.py has them."""
    source = (DOCS.parent / "tests" / "test_imports.py").read_text()
    match = re.search(r'LAYERS = """(.*?)"""', source, re.S)
    assert match
    return [line.split() for line in match[1].strip().splitlines()]


def text(x: float, y: float, words: str, kind: str, *, anchor: str = "middle") -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, kind: str) -> str:
    size = f'width="{width:g}" height="{height:g}"'
    return f'<rect x="{x:g}" y="{y:g}" {size} rx="7" class="{kind}"/>'


def arrow(*points: tuple[float, float]) -> str:
    """A line through the points with a head at the last."""
    path = "M" + " L".join(f"{x:g} {y:g}" for x, y in points)
    return f'<path d="{path}" class="line" marker-end="url(#head)"/>'


def picture(width: int, height: int, title: str, parts: list[str]) -> str:
    head = (
        '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
        ' orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" class="head"/></marker>'
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{STYLE}</style>",
        f"<defs>{head}</defs>",
        box(1, 1, width - 2, height - 2, "card"),
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def loop() -> str:
    """The stages as boxes, each with the directory that it writes."""
    left = {"prompts": 24, "rollout": 192, "score": 360, "advantage": 528, "train-step": 696}
    directory = {"rollout": "rollouts/", "score": "scores/", "advantage": "advantages/"}
    directory |= {"prompts": "prompts/", "train-step": "update/"}
    parts = []
    for name, x in left.items():
        parts.append(box(x, 60, 120, 54, "box"))
        parts.append(text(x + 60, 83, name, "code"))
        parts.append(text(x + 60, 103, directory[name], "note"))
    xs = list(left.values())
    parts += [arrow((x + 120, 87), (after - 3, 87)) for x, after in itertools.pairwise(xs)]
    parts.append(arrow((756, 60), (756, 30), (252, 30), (252, 57)))
    parts.append(text(504, 22, "the trained policy samples the next step", "note"))
    parts.append(box(348, 148, 312, 54, "soft"))
    parts.append(text(504, 170, "eval-passk  ucc  diversity  compare", "code"))
    parts.append(text(504, 190, "report  view  export", "code"))
    parts.append(arrow((420, 114), (420, 145)))
    parts.append(box(192, 148, 120, 54, "box"))
    parts.append(text(252, 171, "logprob", "code"))
    parts.append(text(252, 191, "logprobs/", "note"))
    parts.append(arrow((252, 114), (252, 145)))
    parts.append(arrow((252, 202), (252, 224), (756, 224), (756, 117)))
    need = "old and reference log-probs, where the objective needs them"
    parts.append(text(504, 241, need, "note"))
    return picture(840, 256, "The loop: each stage reads directories and writes one", parts)


def architecture() -> str:
    """The packages by layer: each imports those on lower layers only."""
    rule = "A package imports packages on lower lines only."
    parts = [text(24, 30, rule, "note", anchor="start")]
    rows = layers()
    side = max(sum(30 + 8.6 * len(name) for name in row) for row in rows) + 44
    y = 46
    for row in rows:
        x = 24.0
        for name in row:
            width = 20 + 8.6 * len(name)
            parts.append(box(x, y, width, 32, "soft" if name.startswith("__") else "box"))
            parts.append(text(x + width / 2, y + 21, name, "code"))
            x += width + 10
        note = next((NOTES[name] for name in row if name in NOTES), "")
        parts.append(text(side, y + 21, note, "note", anchor="start"))
        y += 44
    return picture(int(side) + 410, y + 8, "The packages of rlvr_cli in layers", parts)


def pictures() -> dict[str, str]:
    return {"loop.svg": loop(), "architecture.svg": architecture()}


if __name__ == "__main__":
    for name, content in pictures().items():
        (DOCS / name).write_text(content)
