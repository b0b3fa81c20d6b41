"""The files that `init` writes: a commented TOML file, a Slurm job and a Dockerfile."""

import importlib.metadata
import json
import shlex
from dataclasses import fields
from pathlib import Path
from typing import Any

from rlvr_cli.config import RunConfig
from rlvr_cli.init.choosing import Chosen, Machine

_JOB = """\
#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --nodes={nodes}
#SBATCH --ntasks-per-node=1
{gpus}#SBATCH --output=%x-%j.log
#SBATCH --requeue
#SBATCH --signal=TERM@120
# Your cluster may want more, such as --partition, --account and --time.

export PATH={bin}:$PATH
srun {train} --nnodes {nodes} --nproc {per_node}
code=$?
# 75: interrupted and safe to run again. It resumes where it stopped.
if [ "$code" -eq 75 ]; then scontrol requeue "$SLURM_JOB_ID"; fi
exit "$code"
"""

_IMAGE = """\
# docker build --tag rlvr --file {file} {context}
# docker run --rm {gpus}--volume "$PWD":/data --workdir /data rlvr \\
#   {train}
# What is outside this folder, such as a model, needs a --volume of its own.
FROM python:3.12-slim
ENV PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1
{system}{torch}COPY pyproject.toml README.md LICENSE /src/
COPY rlvr_cli /src/rlvr_cli
COPY commands /src/commands
COPY kernels /src/kernels
COPY fixtures /src/fixtures
RUN pip install '/src{extras}'
ENTRYPOINT ["rlvr"]
"""

# Triton and torch.compile call a compiler.
_COMPILER = """\
RUN apt-get update \\
    && apt-get install --yes --no-install-recommends build-essential \\
    && rm -rf /var/lib/apt/lists/*
"""
_CPU_TORCH = """\
# The CPU build: that of the package index takes several GB.
RUN pip install --index-url https://download.pytorch.org/whl/cpu torch=={version}
"""


def toml(config: RunConfig, chosen: Chosen, head: list[str], given: dict[str, str]) -> str:
    """A run's file: what was given and chosen with its reason, the defaults commented out.

    `head` are the lines that it begins with; `given` are keys of [train] and why they are so.
    """
    lines = [_printable(f"# {line}").rstrip() for line in head]
    for table, options in vars(config).items():
        lines += ["", f"[{table.replace('_', '-')}]"]
        for option in fields(options):
            value = getattr(options, option.name)
            choice = chosen[table].get(option.name)
            why = choice.why if choice else given.get(option.name) if table == "train" else None
            line = f"{option.name} = {_toml(value)}"
            text = f"{line}  # {why}" if why else f"# {line}  # {option.metadata['help']}"
            lines.append(_printable(text))
    return "\n".join(lines) + "\n"


def _printable(line: str) -> str:
    """A line as TOML allows it in a comment: names of columns may hold anything."""
    return "".join(c if c.isprintable() else " " for c in line)


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def job(name: str, machine: Machine, train: list[str], folder: Path) -> str:
    """A Slurm job of the run; `folder` holds the `rlvr` that its nodes call."""
    gpus = f"#SBATCH --gpus-per-node={machine.per_node}\n" if machine.device.kind == "cuda" else ""
    return _JOB.format(
        name=name,
        nodes=machine.nodes,
        per_node=machine.per_node,
        gpus=gpus,
        bin=shlex.quote(str(folder)),
        train=shlex.join(train),
    )


def _torch_version() -> str:
    """The version that is installed here, without the name of its build."""
    return importlib.metadata.version("torch").partition("+")[0]


def needed(config: RunConfig, machine: Machine) -> dict[str, str]:
    """The extras of rlvr that a run needs, each with its package."""
    wanted = {
        ("deepspeed", "deepspeed"): config.train_step.trainer.startswith("deepspeed"),
        ("gpu", "triton"): machine.device.kind == "cuda",
        ("lora", "peft"): config.train_step.lora_rank > 0,
        ("vllm", "vllm"): config.rollout.engine.startswith("vllm"),
    }
    return dict(extra for extra, is_wanted in wanted.items() if is_wanted)


def image(file: Path, context: str, machine: Machine, train: list[str], config: RunConfig) -> str:
    """A Dockerfile that installs rlvr from the checkout `context`, with what the run needs."""
    on_gpu = machine.device.kind == "cuda"
    extras = ",".join(needed(config, machine))
    return _IMAGE.format(
        file=shlex.quote(str(file)),
        context=shlex.quote(context),
        gpus="--gpus all --ipc host " if on_gpu else "",
        train=shlex.join(train[1:]),
        system=_COMPILER if on_gpu else "",
        torch="" if on_gpu else _CPU_TORCH.format(version=_torch_version()),
        extras=f"[{extras}]" if extras else "",
    )
