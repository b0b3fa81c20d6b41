"""What transformers loads of a directory, a GGUF file or a hub name: never code of the model's own.

A model's `config.json` may name code in two ways: an `auto_map` of Python files next to it, which
transformers offers to run, and attention or experts as a kernel of the hub, which it downloads and
imports. The first is never run, and the second is refused. Weights are safetensors, GGUF, or
pickles from which torch reads only tensors (`weights_only`).
"""

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rlvr_cli.errors import Advice, DataError, UsageError, first_line
from rlvr_cli.models import weight_files
from rlvr_cli.runtime import later

_KERNELS = ("attn_implementation", "experts_implementation")
_CONFIG, _AUTO_MAP = "config.json", "auto_map"
# Where the word embeddings are also the output head, transformers loads these as language models.
_OTHER_HEADS = (
    "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMaskedLM",
    "ForMultipleChoice", "RewardModel",
)  # fmt: skip


def config(source: Path | str) -> Any:
    """The configuration of a language model; DataError where it is broken, names code of the hub,
    or is that of another kind of model."""
    later.import_transformers()
    from transformers import AutoConfig, PretrainedConfig

    raw: dict[str, Any] = {}
    try:
        raw, _ = PretrainedConfig.get_config_dict(source)
        loaded = AutoConfig.from_pretrained(source, trust_remote_code=False)
    except Exception as error:  # a broken file may raise anything
        if _AUTO_MAP in raw:
            raise DataError(
                f"`{source}` is a `{raw.get('model_type')}`, which only Python of its own could "
                f"load (`{_AUTO_MAP}` of its {_CONFIG}): it was not run",
                "name a model of a type that this transformers has, or install a newer one",
            ) from error
        raise DataError(
            f"cannot load the configuration of `{source}`: {first_line(error)}", "copy it again"
        ) from error
    for key, kernel in _kernels(raw):
        raise DataError(
            f"`{source}` names code of the hub: the `{key}` of its {_CONFIG} is `{kernel}`",
            f"it was not run: remove `{key}` there, and transformers' own is taken",
        )
    _check_kind(source, loaded)
    return loaded


def _check_kind(source: Path | str, config: Any) -> None:
    """Refuses reward models, classifiers, encoders and encoder-decoders."""
    named = (config.architectures or ("",))[0]
    if named.endswith(_OTHER_HEADS) or config.is_encoder_decoder:
        raise DataError(
            f"`{source}` is not a causal language model: its {_CONFIG} says "
            f"`{named or config.model_type}`",
            "name a decoder with a language-modelling head, such as a Qwen2ForCausalLM",
        )


def tokenizer(source: Path | str, **options: Any) -> Any:
    """The tokenizer of a model; raises whatever transformers does of one that is broken."""
    later.import_transformers()
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(source, trust_remote_code=False, **options)


def model(source: Path | str, *, reads_images: bool = False, **options: Any) -> Any:
    """A causal language model with all its weights.

    One that `reads_images` is a model of images and text. DataError if weights are missing,
    UsageError if a package is, and whatever transformers raises of one that is broken.
    """
    if "gguf_file" not in options:
        options["config"] = config(source)
        if Path(source).is_dir():
            weight_files.in_subfolders(Path(source))
    name = Path(source, options.get("gguf_file", ""))
    try:
        loaded, loading = _auto(reads_images).from_pretrained(
            source, trust_remote_code=False, output_loading_info=True, **options
        )
    except ImportError as error:
        raise UsageError(
            f"cannot load `{name}`: {first_line(error)}", "install what it names"
        ) from error
    _check_complete(name, loading)
    return loaded


def _check_complete(source: Path | str, loading: dict[str, Any]) -> None:
    """DataError where weights are missing, by what transformers says of its loading; names stored
    ones that the model has no place for."""
    if unused := sorted(loading["unexpected_keys"]):
        warnings.warn(
            f"{len(unused)} of the weights in `{source}` are not used, {unused[0]} among them: the "
            f"model of its {_CONFIG} has no place for them",
            Advice,
            stacklevel=2,
        )
    if missing := sorted(loading["missing_keys"]):
        raise DataError(
            f"`{source}` lacks {len(missing)} of the model's weights, {missing[0]} among them",
            "copy the model again, or save it again as an AutoModelForCausalLM",
        )


def untrained(config: Any, *, reads_images: bool = False, **options: Any) -> Any:
    """A causal language model of a configuration, with weights that nobody has trained."""
    return _auto(reads_images).from_config(config, trust_remote_code=False, **options)


def _auto(reads_images: bool) -> Any:
    """What transformers chooses a model's class by."""
    later.import_transformers()
    import transformers

    name = "AutoModelForImageTextToText" if reads_images else "AutoModelForCausalLM"
    return getattr(transformers, name)


def _kernels(raw: Any) -> Iterator[tuple[str, str]]:
    """The kernels of the hub that a configuration names, as `OWNER/NAME`, at any depth."""
    for key, value in raw.items() if isinstance(raw, dict) else ():
        if any(name in key for name in _KERNELS):
            named = value.values() if isinstance(value, dict) else [value]
            yield from ((key, text) for text in named if isinstance(text, str) and "/" in text)
        yield from _kernels(value)
