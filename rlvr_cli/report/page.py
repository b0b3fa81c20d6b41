"""A report: everything measured, put into one HTML file that needs no network."""

import base64
import hashlib
import importlib.resources
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_cli.errors import UsageError, UserError
from rlvr_cli.report import (
    comparing,
    drawing,
    examples,
    figures,
    glossary,
    panels,
    pictures,
    prompts,
    subject as subjects_of,
    summary,
    tables,
    typeset,
)
from rlvr_cli.report.comparing import SubjectPair
from rlvr_cli.report.packing import Packing
from rlvr_cli.report.palette import Palette
from rlvr_cli.report.pictures import Album
from rlvr_cli.report.prompts import PromptRow
from rlvr_cli.report.sources import ReportSource
from rlvr_cli.report.subject import Subject
from rlvr_cli.report.texts import Setter
from rlvr_cli.storage import atomic
from rlvr_cli.terminal import tables as reporting
from rlvr_cli.terminal.escape import shown

_STYLES = ("style.css", "prompts.css", "print.css")
_SCRIPTS = ("script.js", "state.js", "texts.js", "reader.js", "prompts.js", "charts.js", "live.js")
MARK = '<meta name="generator" content="rlvr report">'


@dataclass(frozen=True)
class Report:
    """The page, and its figures as JSON."""

    html: str
    figures: dict[str, Any]


def make(
    sources: list[ReportSource],
    *,
    threshold: float = 0.8,
    min_n: int = 1,
    most_examples: int = 6,
    title: str | None = None,
    max_mb: float = 5.0,
    most_set: int = 500_000,
    reload_s: float | None = None,
    on_part: Callable[[int, str], None] = lambda index, state: None,
) -> Report:
    """The report of the opened sources; the same directories give the same bytes.

    Completions are packed into about `max_mb`, and `most_set` of their characters are set as
    Markdown and formulas. An open page loads itself again every `reload_s` seconds.
    """
    subjects = [
        subjects_of.measure(name, lineage, threshold=threshold, min_n=min_n, on_part=on_part)
        for source in sources
        for name, lineage in source.lineages.items()
    ]
    comparisons = comparing.judged([comparing.pair(subjects[0], s) for s in subjects[1:]])
    pairs = [pair for pair in comparisons if isinstance(pair, SubjectPair)]
    palette = Palette(subjects, sources)
    chosen = _chosen(subjects, pairs, most_examples)
    rows = prompts.rows(subjects, pairs) if subjects else []
    # What else is on the page takes half a MB.
    most_bytes = max(0, int(1e6 * max_mb) - 500_000)
    album = _album(subjects, rows, {example.prompt_id for example in chosen}, most_bytes)
    setter, room = Setter(most_set), max(0, most_bytes - len(album.css))
    packing = Packing(subjects, rows, palette, setter, album, most_bytes=room) if subjects else None
    name = shown(title or " and ".join(source.name for source in sources))
    html = _render(
        album,
        title=name,
        reload_s=reload_s,
        sources=sources,
        subjects=subjects,
        pairs=pairs,
        lede=summary.lede(subjects, pairs, sources),
        notes=_notes(sources, subjects, comparisons, album),
        tiles=summary.tiles(subjects, pairs),
        quality=_quality(subjects, palette),
        training=[*panels.of_training(sources, palette), *panels.signal(sources)],
        distributions=_distributions(subjects, palette),
        packed=packing.done() if packing else None,
        formulas_note=_formulas_note(),
        status=tables.status(subjects),
        by_source=[t for s in subjects if (t := tables.by_source(s))],
        flips=[tables.flips(pair) for pair in pairs],
        examples=_filled(chosen, subjects, pairs, album),
        lines=[tables.line(source) for source in sources],
        glossary=glossary.entries(threshold),
    )
    return Report(html, _figures(subjects, pairs))


def require_free(out: Path) -> None:
    """Refuses to overwrite a file that is not a report."""
    if out.is_file() and MARK.encode() not in atomic.read_bytes(out)[:2000]:
        raise UserError(f"`{out}` exists and is not a report", "name another file with --out")


def _album(
    subjects: Sequence[Subject], rows: Sequence[PromptRow], first: set[str], most_bytes: int
) -> Album:
    """The pictures of all prompts, those of the examples first, in half of the page at most."""
    ordered = sorted(rows, key=lambda row: row.prompt_id not in first)
    asked = (row.text.messages for row in ordered if row.text)
    return pictures.album([s.lineage.prompts for s in subjects], asked, most_bytes // 2)


def _chosen(
    subjects: Sequence[Subject], pairs: Sequence[SubjectPair], most: int
) -> list[examples.Example]:
    """Of the last pair, or of the only subject."""
    if not subjects or not most:
        return []
    last = pairs[-1] if pairs else None
    return examples.choose(last.second if last else subjects[-1], last, most)


def _filled(
    chosen: list[examples.Example],
    subjects: Sequence[Subject],
    pairs: Sequence[SubjectPair],
    album: Album,
) -> list[examples.Example]:
    if chosen:
        last = pairs[-1] if pairs else None
        examples.fill(chosen, [last.first, last.second] if last else [subjects[-1]], album)
    return chosen


def _formulas_note() -> str:
    if typeset.available():
        return ""
    return "Formulas stay LaTeX, because latex2mathml is not installed: pip install 'rlvr[report]'."


def _quality(subjects: Sequence[Subject], palette: Palette) -> list[panels.Panel]:
    if not subjects:
        return []
    titles = (("pass", "Pass@k"), ("ucc", "UCC@k"))
    return [panels.by_k(subjects, palette, metric, title) for metric, title in titles]


def _distributions(subjects: Sequence[Subject], palette: Palette) -> list[panels.Panel]:
    groups = (
        panels.spread(subjects, palette),
        panels.lengths(subjects),
        panels.entropies(subjects, palette),
    )
    return list(itertools.chain(*groups)) if subjects else []


def _notes(
    sources: list[ReportSource],
    subjects: list[Subject],
    pairs: list[SubjectPair | str],
    album: Album,
) -> list[str]:
    notes = [
        (f"{subject.name}: " if len(subjects) > 1 else "") + note
        for subject in subjects
        for note in subjects_of.notes(subject)
    ]
    for pair in pairs:
        notes += [pair] if isinstance(pair, str) else pair.notes
    for source in sources:
        if source.run and source.run.torn:
            torn = f"incomplete lines of metrics.jsonl, skipped: {source.run.torn}"
            notes.append(f"{source.name}: {torn}.")
        if source.run and (steps := source.run.incomplete):
            listed = ", ".join(map(str, steps))
            notes.append(f"{source.name}: not complete on disk, left out of its figures: {listed}.")
        if source.run and not source.lineages:
            notes.append(f"{source.name}: no complete evaluation on held-out prompts.")
    notes.append(album.note)
    return [shown(note) for note in dict.fromkeys(notes) if note]


def _figures(subjects: list[Subject], pairs: list[SubjectPair]) -> dict[str, Any]:
    return {
        "subjects": {
            s.name: {"prompts": len(s.tallied.prompt_id), "metrics": s.intervals} for s in subjects
        },
        "differences": [
            {
                "first": pair.first.name,
                "second": pair.second.name,
                "steps": [pair.first.conditions.step, pair.second.conditions.step],
                "prompts": len(pair.prompts),
                "comparisons": pair.comparison.comparisons,
                "notes": pair.notes,
                "metrics": {name: cells[-1] for name, cells in pair.rows.items()},
                "p": pair.comparison.chance,
                "verdicts": pair.comparison.verdict,
                "gained": pair.gained,
                "lost": pair.lost,
            }
            for pair in pairs
        ],
    }


def _render(album: Album, **values: Any) -> str:
    try:
        import jinja2
        import markupsafe
    except ImportError as error:
        raise UsageError(
            "a report needs a package that is not installed", "pip install 'rlvr[report]'"
        ) from error
    number = itertools.count()

    def svg(text: str) -> Any:
        return markupsafe.Markup(drawing.unique(text, f"f{next(number)}"))

    script = "".join(_file(name) for name in _SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    environment.filters |= {
        "svg": svg,
        "shown": lambda value: shown(str(value)),
        "plot_data": lambda plot: {"x": plot.x, "heads": plot.heads, "series": plot.series},
    }
    environment.globals |= {
        "dash": _dash,
        "interval": reporting.interval,
        "define": lambda key: glossary.ENTRIES[key].line,
    }
    template = environment.from_string(_file("template.html"))
    plain = {
        "mark": markupsafe.Markup(MARK),
        "style": markupsafe.Markup("".join(_file(name) for name in _STYLES)),
        "pictures": markupsafe.Markup(album.css and _file("pictures.css") + album.css),
        "script": markupsafe.Markup(script),
        "script_digest": digest,
    }
    return template.render(**values, **plain)


def _dash(index: int) -> str:
    """The dash of a series as SVG writes it."""
    dash = figures.DASHES[index]
    return "none" if dash == "solid" else " ".join(f"{1.6 * d:g}" for d in dash[1])


def _file(name: str) -> str:
    return importlib.resources.files("rlvr_cli.report").joinpath(name).read_text()
