"""One Arrow schema per shard kind; a column's unit is in its field metadata."""

import pyarrow as pa

from rlvr_cli.errors import DataError

VERSION = 1


def _field(name: str, kind: pa.DataType, unit: str = "", *, null: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=null, metadata={"unit": unit} if unit else None)


def _list(kind: pa.DataType, size: int = -1) -> pa.DataType:
    """A list of values that are never null; of any length without a size."""
    return pa.list_(pa.field("element", kind, nullable=False), size)


_TEXT = pa.large_string()
_TOKENS, _NATS = _list(pa.int32()), _list(pa.float32())
_KEY = [_field("prompt_id", pa.string()), _field("sample_index", pa.int32())]
TOP_K = ("ref_topk_ids", "ref_topk_logp")
INPUT = "input"
_INPUT = _field(INPUT, pa.int32())
_ON_DEMAND = ("policy_logp", "collision", INPUT, "images")  # there only if `only` names it
_UNKNOWN_OF_IMPORTS = ("finish_reason",)

_SCHEMAS = {
    "prompts": [
        _KEY[0],
        _field("messages", _TEXT, "JSON: a list of role and content, or one string of raw text"),
        _field("answer", _TEXT, null=True),
        _field("verifier", pa.string(), null=True),
        _field("source", pa.string()),
        _field("extra", _TEXT, "JSON", null=True),
        _field("raw", pa.bool_(), null=True),
        _field("images", _list(pa.string()), "sha256 of each image's stored bytes", null=True),
    ],
    "images": [
        _field("sha256", pa.string(), "of `bytes`"),
        _field("bytes", pa.binary()),
        _field("format", pa.string(), "PNG, JPEG or WEBP"),
        _field("width", pa.int32(), "pixels"),
        _field("height", pa.int32(), "pixels"),
    ],
    "rollouts": [
        *_KEY,
        _field("prompt_token_ids", _TOKENS),
        _field("completion", _TEXT),
        _field("token_ids", _TOKENS, null=True),
        _field("behaviour_logp", _NATS, "nats", null=True),
        _field("policy_logp", _NATS, "nats, of the policy by the sampler, of DLC", null=True),
        _field("finish_reason", pa.string(), "stop, length or abort", null=True),
        _field("status", pa.string(), "ok, prompt_truncated or prompt_too_long"),
        _field("seed", pa.int64(), null=True),
        _field("policy", pa.string(), "sha256 of the behaviour policy", null=True),
    ],
    "scores": [
        *_KEY,
        _INPUT,
        _field("reward", pa.float64(), null=True),
        _field("correct", pa.bool_(), null=True),
        _field("extracted", _TEXT, null=True),
        _field("reason", _TEXT, null=True),
        _field("status", pa.string(), "ok, no_answer, timeout, oom, error, bad_gold or aborted"),
    ],
    "logprobs": [
        *_KEY,
        _INPUT,
        _field("old_logp", _NATS, "nats", null=True),
        _field("ref_logp", _NATS, "nats", null=True),
        _field("entropy", _NATS, "nats", null=True),
        _field("max_prob", _NATS, "probability", null=True),
        _field("collision", _NATS, "probability", null=True),
        _field(TOP_K[0], _list(_TOKENS), "the likeliest tokens, likeliest first", null=True),
        _field(TOP_K[1], _list(_NATS), "nats", null=True),
    ],
    "advantages": [
        *_KEY,
        _INPUT,
        _field("advantage", pa.float64(), null=True),
        _field("keep", pa.bool_()),
        _field("group_size", pa.int32(), "completions with a reward"),
        _field("group_mean", pa.float64(), null=True),
        _field("group_std", pa.float64(), "ddof 1", null=True),
    ],
    "steps": [
        _field("epoch", pa.int32()),
        _field("mini_batch", pa.int32()),
        _field("loss", pa.float64()),
        _field("grad_norm", pa.float64()),
        _field("learning_rate", pa.float64()),
        _field("entropy", pa.float64(), "nats a token"),
        _field("clip_fraction", pa.float64(), "share of trained tokens"),
        _field("clamp_count", pa.int64(), "tokens with a log ratio beyond 20 nats"),
        _field("ratio_mean", pa.float64()),
        _field("ratio_min", pa.float64()),
        _field("ratio_max", pa.float64()),
        _field("kl", pa.float64(), "nats a token, KL(old || new) by k3"),
        _field("sequences", pa.int64()),
        _field("tokens", pa.int64()),
        _field("sampler_gap", pa.float64(), "nats, the largest of the rollout batch", null=True),
    ],
    "trajectories": [
        _field("run", pa.string()),
        _field("seed", pa.int64()),
        _field("step", pa.int32(), "updates made"),
    ],
    "checks": [
        _field("about", pa.string()),
        _field("check", pa.string()),
        _field("state", pa.string(), "holds, fails or open"),
        _field("n", pa.int64(), "values that the interval is of"),
        *(_field(name, pa.float64()) for name in ("mean", "low", "high", "above", "below")),
    ],
    "metrics": [_KEY[0], _field("source", pa.string(), null=True), _field("n", pa.int32()),
                _field("correct", pa.int32()), _field("excluded", pa.int32())],
}  # fmt: skip

KINDS = tuple(_SCHEMAS)


def schema(
    kind: str,
    extra: tuple[str, ...] = (),
    only: tuple[str, ...] | None = None,
    *,
    top_k: int | None = None,
) -> pa.Schema:
    """The schema of a kind, with `extra` nullable float64 columns after its own.

    `only` names the value columns to keep if a stage computes only some of them; the key
    columns always stay. `top_k` is the number of likeliest tokens where a kind holds some.
    """
    if kind not in _SCHEMAS:
        raise DataError(f"unknown shard kind `{kind}`", f"the kinds are {', '.join(KINDS)}")
    keys = {"prompt_id", "sample_index"}
    known = [f.name for f in _SCHEMAS[kind] if f.name not in _ON_DEMAND]
    names = keys | set(known if only is None else only)
    fields = [f for f in _SCHEMAS[kind] if f.name in names]
    fields = [_sized(f, top_k) if top_k and f.name in TOP_K else f for f in fields]
    return pa.schema(fields + [_field(name, pa.float64(), null=True) for name in extra])


def with_input(kind: str, only: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """The value columns of a directory of several inputs: the requested ones, and `input`."""
    known = [f.name for f in _SCHEMAS[kind] if f not in _KEY and f.name not in _ON_DEMAND]
    return (INPUT, *(known if only is None else only))


def with_images() -> tuple[str, ...]:
    """The value columns of prompts, some of which have images."""
    return tuple(f.name for f in _SCHEMAS["prompts"] if f not in _KEY)


def of_samplers(columns: pa.Schema) -> pa.Schema:
    """The schema of parts that a sampler writes: columns that are null only in imported ones."""
    return pa.schema([f.with_nullable(f.nullable and f.name not in _UNKNOWN_OF_IMPORTS)
                      for f in columns])  # fmt: skip


def _sized(field: pa.Field, top_k: int) -> pa.Field:
    """The field of a list of lists, with the inner ones of one size."""
    return field.with_type(_list(_list(field.type.value_type.value_type, top_k)))
