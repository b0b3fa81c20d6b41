"""A run file for a model and data: what they are, what fits, and the commands to run next."""

import dataclasses
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlvr_cli.cli import checkout
from rlvr_cli.config import RunConfig
from rlvr_cli.doctor.machine import version
from rlvr_cli.errors import UsageError
from rlvr_cli.init import choosing, facts, text
from rlvr_cli.init.choosing import Machine
from rlvr_cli.init.facts import DataFacts, ModelFacts
from rlvr_cli.runtime import device
from rlvr_cli.specs import trust
from rlvr_cli.stages import prompts
from rlvr_cli.stages.prompts import Source
from rlvr_cli.storage import atomic
from rlvr_cli.storage.shards import MANIFEST, Shards


@dataclass(frozen=True)
class Request:
    """The options of `init`; `columns` are those of `prompts.from_file`."""

    model: str
    data: str
    heldout: str | None
    out: Path
    split: str | None
    heldout_split: str | None
    verifier: str | None
    columns: dict[str, str | None]
    slurm: bool
    docker: bool

    @property
    def evaluated(self) -> str | None:
        """The data to evaluate on, if it is not to be taken from the first rows of `data`."""
        return self.heldout or (self.data if self.heldout_split else None)

    @property
    def files(self) -> dict[str, Path]:
        """The path of each file: the job and the image are next to the run's file."""
        paths = {"toml": self.out}
        paths |= {"job": self.out.with_suffix(".slurm")} if self.slurm else {}
        return paths | ({"image": self.out.with_name("Dockerfile")} if self.docker else {})


@dataclass(frozen=True)
class Proposal:
    """What `init` writes and prints: facts, remarks, files and the commands to run next."""

    facts: dict[str, str]
    remarks: list[str]
    texts: dict[Path, str]
    commands: list[list[str]]


def machine(nodes: int, gpus: int | None, gpu_memory: float | None, *, slurm: bool) -> Machine:
    """The machine of the run: this one, or another whose GPUs hold `gpu_memory` GiB each."""
    if nodes > 1 and not slurm:
        raise UsageError(f"--nodes is {nodes}, and Slurm starts several", "add --slurm")
    here = device.here()
    if gpu_memory:
        if not gpu_memory < float("inf"):
            raise UsageError(f"--gpu-memory is {gpu_memory}", "give the GiB of a GPU, as in 80")
        size = int(gpu_memory * 2**30)
        here = device.Device("cuda", size, size, f"a GPU of {gpu_memory:g} GiB")
    if here.kind == "cpu" and gpus:
        raise UsageError(
            f"--gpus is {gpus}, and this machine has none", "say what each has with --gpu-memory 80"
        )
    if here.kind == "cpu" and nodes > 1:
        raise UsageError(
            f"--nodes is {nodes}, and this machine has no GPU",
            "say what each node has, as in --gpus 8 --gpu-memory 80",
        )
    return Machine(here, nodes, gpus or 1)


def check_files(request: Request, *, force: bool) -> None:
    """Refuses to write over files that are there."""
    there = [path for path in request.files.values() if path.exists()]
    if there and not force:
        raise UsageError(
            f"{', '.join(f'`{path}`' for path in there)} exists already",
            "choose another place with --out, or write over it with --force",
        )


def propose(request: Request, target: Machine) -> Proposal:
    """Looks at the model and the data, chooses, and makes the texts; writes nothing."""
    model = facts.of_model(request.model)
    load = {"split": request.split, "verifier": request.verifier, "columns": request.columns}
    source = prompts.load(request.data, **load)  # type: ignore[arg-type]
    data = facts.of_data(request.data, source, model, request.verifier)
    kept = 0 if request.evaluated else choosing.heldout_rows(data.rows)
    evaluates = bool(kept or request.evaluated)
    config, chosen = choosing.choose(
        model, data, target, rows=data.rows - kept, evaluates=evaluates
    )
    paths, commands = _prompts(request, source, data, kept)
    named = dataclasses.replace(config.train, prompts=paths["prompts"], heldout=paths["heldout"])
    config = dataclasses.replace(config, train=named)
    train = ["rlvr", "train", "--config", str(request.out)]
    train += ["--out", str(request.out.parent / "runs" / request.out.stem)]
    trusted = trust.named_in([data.verifier or ""])
    for flag, values in (("--trust-file", trusted.files), ("--trust-host", trusted.hosts)):
        train += [word for value in values for word in (flag, str(value))]
    given = {"model": "as given", "prompts": "made by `rlvr prompts`"}
    if evaluates:
        given["heldout"] = f"not trained on{f': the first {kept} rows' if kept else ''}"
    head = _head(model, data, target)
    texts = _texts(request, config, target, train)
    texts[request.files["toml"]] = text.toml(config, chosen, head, given)
    last = ["sbatch", str(request.files["job"])] if request.slurm else train
    if target.size > 1 and not request.slurm:
        last = [*train, "--nproc", str(target.size)]
    commands.append(last)
    said = {"model": str(model), "data": str(data), "machine": str(target)}
    said["verifier"] = f"{data.verifier or 'of each row'} ({data.why})"
    return Proposal(said, _remarks(model, data, config, target), texts, commands)


def _prompts(
    request: Request, source: Source, data: DataFacts, kept: int
) -> tuple[dict[str, str], list[list[str]]]:
    """The directories of prompts of the run, and the commands that make those that are missing."""
    folder = request.out.parent / "prompts"
    flags = ["--verifier", data.verifier] if data.verifier else []
    for name, value in request.columns.items():
        flags += [f"--{name.replace('_', '-')}", value] if value else []

    def command(name: str, of: str, split: str | None, *rows: str) -> list[str]:
        of_split = ["--split", split] if split else []
        return ["rlvr", "prompts", of, *of_split, *rows, *flags, "--out", str(folder / name)]

    paths, commands = {"prompts": str(folder / "train"), "heldout": ""}, []
    if kept:
        paths["heldout"] = str(folder / "heldout")
        commands += [
            command("heldout", request.data, request.split, "--limit", str(kept)),
            command("train", request.data, request.split, "--skip", str(kept)),
        ]
        return paths, commands
    if _is_ready(request.data) and not request.verifier:
        paths["prompts"] = request.data
    else:
        commands.append(command("train", request.data, request.split))
    if request.evaluated and _is_ready(request.evaluated) and not request.verifier:
        paths["heldout"] = request.evaluated
    elif request.evaluated:
        paths["heldout"] = str(folder / "heldout")
        commands.append(command("heldout", request.evaluated, request.heldout_split))
    return paths, commands


def _is_ready(name: str) -> bool:
    """Whether it is a directory of prompts that all name their verifier."""
    if not (Path(name) / MANIFEST).exists():
        return False
    return not Shards.open(Path(name), "prompts").table()["verifier"].null_count


def _head(model: ModelFacts, data: DataFacts, target: Machine) -> list[str]:
    return [
        "Written by `rlvr init`. Lines with a value were chosen for this model, data and machine;",
        "the others are the defaults. Flags of `rlvr train` override this file.",
        "",
        f"model:   {model}",
        f"data:    {data}",
        f"machine: {target}",
    ]


def _texts(
    request: Request, config: RunConfig, target: Machine, train: list[str]
) -> dict[Path, str]:
    """The Slurm job and the Dockerfile, if wanted."""
    texts = {}
    if request.slurm:
        where = Path(sys.executable).parent
        texts[request.files["job"]] = text.job(request.out.stem, target, train, where)
    if request.docker:
        file, context = request.files["image"], str(checkout.root() or "CHECKOUT")
        several = ["--nproc", str(target.per_node)] if target.per_node > 1 else []
        texts[file] = text.image(file, context, target, [*train, *several], config)
    return texts


def _remarks(model: ModelFacts, data: DataFacts, config: RunConfig, target: Machine) -> list[str]:
    """What a user should know before a run."""
    remarks = []
    if not config.train.eval_every:
        remarks.append("too few rows to keep some for evaluation: name others with --heldout")
    needed = text.needed(config, target).items()
    if missing := [extra for extra, package in needed if not version(package)]:
        remarks.append(f"the run needs more than is here: pip install 'rlvr[{','.join(missing)}]'")
    return remarks


def write(proposal: Proposal) -> dict[str, Any]:
    """Writes the files, each completely or not at all; the summary."""
    for path, content in proposal.texts.items():
        atomic.make_folder(path.parent)
        atomic.write_atomic(path, content.encode())
    commands = [shlex.join(words) for words in proposal.commands]
    files = [str(path) for path in proposal.texts]
    return {**proposal.facts, "remarks": proposal.remarks, "files": files, "commands": commands}
