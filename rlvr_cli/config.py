"""The options of the stages, each once with its default; a run's TOML has one table a stage."""

import dataclasses
import json
import math
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

from rlvr_cli.errors import UsageError

ADAPTERS_RATE = 1e-5  # the learning rate of adapters, unless one is given
# Where help shows an option; those of the first group come first, under the command's own.
ESSENTIAL, SAMPLING, OPTIMISATION, EVALUATION, MEMORY, ASYNC, READING, FILES, DLC = GROUPS = (
    *("", "Sampling", "Optimisation", "Rewards and evaluation", "Memory and speed"),
    *("Sampling while training", "Files of other tools", "Files and output", "Memory model (DLC)"),
)


def option(
    default: Any,
    text: str,
    *,
    least: float | None = None,
    most: float | None = None,
    earlier: Any = None,
    group: str | None = None,
    spelled: Literal["", "list", "table"] = "",
    flag: str = "",
) -> Any:
    """A field with its help text, its bounds and its `group` in help, that of its table if None.

    An option that is added says in `earlier` what the directories and runs of earlier versions,
    which do not store it, meant. `spelled` says that its text is a list or a table of the grammar
    of specs, so that TOML may hold a list or a table instead. `flag` is another name for it on the
    command line.
    """
    metadata = {
        **{"help": text, "least": least, "most": most, "earlier": earlier},
        **{"group": group, "spelled": spelled, "flag": flag},
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class RolloutOptions:
    GROUP: ClassVar[str] = SAMPLING
    num_generations: int = option(8, "completions per prompt", least=1, group=ESSENTIAL)
    max_new_tokens: int = option(256, "the longest completion, in tokens", least=1, group=ESSENTIAL)
    temperature: float = option(1.0, "sampling temperature; 0 takes the likeliest token", least=0)
    top_p: float = option(1.0, "nucleus sampling: keep this probability mass", least=1e-6, most=1)
    top_k: int = option(0, "sample from the likeliest tokens only; 0 means all", least=0)
    engine: str = option(
        "auto",
        "the rollout engine and its options; auto is graph on a GPU, transformers where graph "
        "cannot run the model and on a CPU; for prompts with images it is vllm on a GPU, if vLLM "
        "is installed and was compared for the kind of model",
        earlier="transformers",
    )
    overlong: Literal["error", "skip", "truncate"] = option(
        "error", "what to do with a prompt that fills the policy's context"
    )
    chat: bool = option(
        True,
        "put plain questions into a user turn if the policy has a chat template",
        earlier=False,
    )
    system: str = option("", "text of a system turn before the question", earlier="")
    prefix: str = option(
        "", "a file of text to put before the question, such as few-shot examples", earlier=""
    )
    template: str = option(
        "", "template of the question: a built-in such as boxed-answer, or a Jinja file", earlier=""
    )
    suffix: str = option("", "text to put after the question", earlier="")
    chat_template_kwargs: str = option(
        "",
        "variables of the chat template, as in enable_thinking=false",
        earlier="",
        spelled="table",
    )
    stop: str = option(
        "",
        'also end a completion at this text; several as in ["Q:","\\n\\n"]',
        earlier="",
        spelled="list",
    )
    prompts_per_part: int = option(
        64,
        "prompts per part, the unit of resume; fewer if some processes would get none",
        least=1,
        group=FILES,
    )
    max_draws: int = option(
        1,
        "draw prompts up to this many times in all, until every group has different rewards "
        "(1: never)",
        least=1,
    )
    memory_model: str = option(
        "", "DLC: sample from the policy minus this model; auto makes a small one", group=DLC
    )
    mu: float = option(
        0.5, "DLC: weight of the memory model's logits; 0 is the policy itself", least=0, group=DLC
    )
    dlc_min_prob: float = option(
        0.0,
        "DLC: leave out tokens whose probability is below this share of the policy's largest "
        "probability",
        least=0,
        most=1,
        group=DLC,
    )

    @property
    def is_decoupled(self) -> bool:
        """Whether completions are sampled from another distribution than the policy's (DLC)."""
        return bool(self.memory_model) and self.mu > 0


@dataclass(frozen=True)
class BenchOptions(RolloutOptions):
    """The same, with a benchmark's values for options that are not given."""

    BEFORE_DEFAULT: ClassVar[str] = "the benchmark's, else "


@dataclass(frozen=True)
class MemoryOptions:
    GROUP: ClassVar[str] = DLC
    memory_learning_rate: float = option(1e-4, "learning rate of the memory model (AdamW)", least=0)
    memory_epochs: int = option(1, "passes of the memory model over a step's completions", least=1)


@dataclass(frozen=True)
class UpdateOptions:
    GROUP: ClassVar[str] = OPTIMISATION
    learning_rate: float = option(
        1e-6,
        f"peak learning rate of AdamW; {ADAPTERS_RATE:g} for adapters if not given",
        least=0,
        group=ESSENTIAL,
    )
    warmup_updates: int = option(0, "optimizer updates over which the rate rises", least=0)
    schedule: Literal["constant", "linear", "cosine"] = option(
        "constant", "how the rate falls after the warm-up"
    )
    decay_updates: int = option(
        0, "updates, including the warm-up, until the rate reaches its minimum", least=0
    )
    min_rate: float = option(0.0, "the lowest rate, as a share of learning_rate", least=0, most=1)
    adam_beta1: float = option(0.9, "AdamW's decay rate of the mean", least=0, most=0.9999999)
    adam_beta2: float = option(0.999, "AdamW's decay rate of the squares", least=0, most=0.9999999)
    adam_eps: float = option(1e-8, "added to AdamW's denominator", least=1e-30)
    lora_rank: int = option(
        0, "train adapters of this rank; 0 trains all weights", least=0, group=ESSENTIAL
    )
    lora_alpha: float = option(0.0, "scales adapters by alpha / rank; 0: twice the rank", least=0)
    lora_targets: str = option("all-linear", "modules to adapt, by name, comma-separated")
    train_vision: bool = option(
        False,
        "if the policy reads images, train its vision tower and projector too",
        earlier=False,
    )
    epochs: int = option(1, "passes over the rollout batch", least=1)
    mini_batch_prompts: int = option(0, "prompts per optimizer step; 0 means all", least=0)
    micro_batch_tokens: int = option(
        16384, "padded tokens per forward pass: fewer take less memory", least=1, group=MEMORY
    )
    trainer: str = option("local", "the training engine and its options", group=MEMORY)
    recompute_activations: bool = option(
        False,
        "activation checkpointing: slower, less memory",
        group=MEMORY,
    )
    weight_decay: float = option(0.0, "weight decay of AdamW", least=0)
    max_grad_norm: float = option(1.0, "clip the gradient's norm to this; 0 means never", least=0)
    old_logprobs: Literal["recompute", "rollout", "stored"] = option(
        "recompute", "where the old policy's log-probs come from (stored: a logprobs directory)"
    )

    @staticmethod
    def implied(given: dict[str, Any]) -> dict[str, Any]:
        """What follows from the options that were given, for some that were not."""
        if given.get("lora_rank") and "learning_rate" not in given:
            return {"learning_rate": ADAPTERS_RATE}
        return {}


@dataclass(frozen=True)
class RunOptions:
    GROUP: ClassVar[str] = ESSENTIAL
    algo: str = option("grpo", "the objective, its options and modifiers")
    model: str = option("builtin", "the policy to start from")
    prompts: str = option(
        "",
        "prompts directory to train on, or a task as in task:shapes; empty means the built-in task",
    )
    heldout: str = option(
        "", "prompts directory or task to evaluate on; empty means the task's held-out split"
    )
    allow_overlap: bool = option(
        False,
        "allow training on prompts that are also held out, and report how many",
        earlier=True,  # nobody looked
        group=EVALUATION,
    )
    steps: int = option(100, "rounds of rollout and update", least=0)
    prompts_per_step: int = option(32, "prompts per step", least=1)
    eval_every: int = option(
        20,
        "steps between evaluations on held-out prompts; 0 means never",
        least=0,
        group=EVALUATION,
    )
    eval_num_generations: int = option(
        16, "completions per held-out prompt", least=1, group=EVALUATION
    )
    eval_temperature: float = option(
        -1.0,
        "temperature of evaluations; -1: as in training",
        least=-1,
        earlier=-1.0,
        group=EVALUATION,
    )
    eval_max_new_tokens: int = option(
        0,
        "the longest completion of evaluations; 0: as in training",
        least=0,
        earlier=0,
        group=EVALUATION,
    )
    max_error_rate: float = option(
        0.01, "stop if the verifier fails on a larger share", least=0, most=1, group=EVALUATION
    )
    allow_code_execution: bool = option(
        False, "let verifiers run code that the policy wrote, isolated", group=EVALUATION
    )
    verifier: str = option(
        "",
        "replaces each prompt's own verifier, as in reward.py:function",
        earlier="",
    )
    answer_from: str = option(
        "<think>...</think>",
        "skip thoughts between these tags, or read only after a marker as in </reasoning>; or none",
        earlier="none",
        group=EVALUATION,
    )
    save_every: int = option(
        10,
        "steps between checkpoints; also written at evaluations and at the end",
        least=1,
        earlier=1,
        group=FILES,
    )
    keep: int = option(
        2, "newest checkpoints to keep, in addition to the best one", least=1, group=FILES
    )
    keep_weights: int = option(
        0,
        "of this many checkpoints before those, keep only the weights",
        least=0,
        earlier=0,
        group=FILES,
    )
    ahead: int = option(
        0,
        "sample up to this many steps ahead of the trainer; 0: in turn",
        least=0,
        earlier=0,
        group=ASYNC,
    )
    stale_correction: str = option(
        "is-correction",
        "modifier of the objective in steps that an earlier policy sampled; none: no modifier",
        earlier="is-correction",  # which nothing was sampled by
        group=ASYNC,
    )
    schedule_of: str = option(
        "", "sample each step from the policy that sampled it in this run", earlier="", group=ASYNC
    )
    seed: int = option(0, "seed of sampling and of the order of prompts", least=0)


@dataclass(frozen=True)
class RunConfig:
    """Everything that decides a run; `train` has no options of its own beyond RunOptions."""

    train: RunOptions = RunOptions()
    rollout: RolloutOptions = RolloutOptions()
    train_step: UpdateOptions = UpdateOptions()
    memory_step: MemoryOptions = MemoryOptions()

    def to_toml(self) -> str:
        lines = []
        for table, options in vars(self).items():
            lines.append(f"[{table.replace('_', '-')}]")
            lines += [f"{name} = {toml(value)}" for name, value in vars(options).items()]
        return "\n".join(lines) + "\n"


def toml(value: Any) -> str:
    """A value as TOML has it."""
    return json.dumps(value, ensure_ascii=False)


def group(kind: type, option: dataclasses.Field[Any]) -> str:
    """Where help shows an option: in its own group, or in that of its table."""
    own = option.metadata["group"]
    return str(kind.GROUP if own is None else own)  # type: ignore[attr-defined]


def earlier(kind: type) -> dict[str, Any]:
    """The values of options that earlier versions did not store."""
    values = {f.name: f.metadata["earlier"] for f in fields(kind)}
    return {name: value for name, value in values.items() if value is not None}


def make(kind: type, given: dict[str, Any], stored: dict[str, Any] | None = None) -> Any:
    """An options object from the values that were given; an error outside an option's bounds.

    `stored` is what a directory or a run was begun with: an option that is not given is as there.
    """
    given = {name: value for name, value in given.items() if value is not None}
    if stored:
        names = {f.name for f in fields(kind)}
        before = {name: value for name, value in stored.items() if name in names}
        given = earlier(kind) | before | given
    if implied := getattr(kind, "implied", None):
        given |= implied(given)
    for option_field in fields(kind):
        name, value = option_field.name, given.get(option_field.name)
        least, most = option_field.metadata["least"], option_field.metadata["most"]
        if value is None:
            continue
        if isinstance(value, float) and not math.isfinite(value):
            raise UsageError(f"--{_flag(name)} is {value}", "it must be a finite number")
        if least is not None and value < least:
            raise UsageError(f"--{_flag(name)} is {value}", f"{least} is the least it may be")
        if most is not None and value > most:
            raise UsageError(f"--{_flag(name)} is {value}", f"{most} is the most it may be")
    return kind(**given)


def _flag(name: str) -> str:
    return name.replace("_", "-")


def _column(text: str, name: str) -> Any:
    return option(None, f"the column {text}", flag=f"{name}_column")


@dataclass(frozen=True)
class ImageOptions:
    """How the images of a data set's prompts are read."""

    GROUP: ClassVar[str] = ESSENTIAL
    image_column: str | None = option(
        None, "columns of images, as in image_1,image_2; none: no column"
    )
    images: str | None = option(
        None, "the folder that relative image paths start from; else the file's own"
    )
    max_pixels: int | None = option(
        None, "shrink larger images to this, keeping their aspect ratio", least=1
    )


@dataclass(frozen=True)
class Columns:
    """How to read files of other tools: the options that describe them.

    Columns that are not named are looked up by the names that tools use. `NO_COLUMN` in place of a
    name says that the files have no such column.
    """

    GROUP: ClassVar[str] = READING
    NO_COLUMN: ClassVar[str] = "none"
    id: str | None = _column("of the prompt's id", "id")
    source: str | None = _column("that tells data sets, models or runs apart", "source")
    prompt: str | None = _column("of the prompt; none: there is none", "prompt")
    gold: str | None = _column("of the gold answer; none: there is none", "answer")
    completion: str | None = _column("of the completion", "completion")
    correct: str | None = _column("or the metric that says whether it is right", "correct")
    correct_above: float | None = option(
        None, "for graded rewards or metrics: more than this is right"
    )
    reward: str | None = _column("of the reward", "reward")
    extracted: str | None = _column("of the extracted answer", "extracted")
    sample: str | None = _column("that numbers a prompt's samples; none: there is none", "sample")
    finish: str | None = _column("that says why a completion ended", "finish")
    where: list[str] | None = option(
        None, "keep only rows with this value, as in filter=strict-match; repeatable"
    )
    merge: bool = option(False, "pool a prompt's rows of several files or steps as its samples")
    repeats: Literal["keep", "first"] | None = option(
        None, "if rows repeat a prompt's sample, keep all or the first \\[default: an error]"
    )
