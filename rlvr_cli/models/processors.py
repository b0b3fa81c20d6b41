"""The processors of policies that read images, which need Pillow and no torchvision.

A processor of transformers is an image processor, a tokenizer and, in many classes, a processor of
videos, which needs torchvision to be loaded at all. rlvr has no videos: that one stays empty, and
the image processor is the one that works with Pillow, so that pixels are the same everywhere.
"""

import functools
import importlib
import json
import re
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, UsageError, first_line

FILES = ("processor_config.json", "preprocessor_config.json")
_CLASS = "processor_class"


def reads_images(path: Path) -> bool:
    """Whether the model of a directory reads images, by its files: nothing is loaded."""
    if not any((path / name).exists() for name in FILES):
        return False
    return isinstance(_json(path / "config.json").get("vision_config"), dict)


def load(path: Path, tokenizer: Any) -> Any:
    """The processor of a model's directory, around a tokenizer that is loaded already."""
    require_pillow()
    from transformers import AutoImageProcessor

    try:
        kind = _class(path)
        image_processor = AutoImageProcessor.from_pretrained(
            path, backend="pil", trust_remote_code=False
        )
        options, _ = kind.get_processor_dict(path)
        for part in kind.get_attributes():  # whose settings transformers 5 writes among them
            options.pop(part, None)
        return of_parts(kind, image_processor, tokenizer, **options)
    except UsageError:
        raise
    except ImportError as error:
        raise _missing(path, error) from error
    except Exception as error:  # a broken file may raise anything
        raise DataError(
            f"cannot load the image processor of `{path}`: {first_line(error)}",
            "copy it again, or name a policy of a kind that docs/images.md lists",
        ) from error


def _missing(path: Path, error: ImportError) -> UsageError:
    """That of a package which the processor needs, with how to install it if transformers says."""
    listed = "name a policy of a kind that docs/images.md lists"
    if not (named := re.search(r"(\w+) requires the (\w+) library", str(error))):
        text = f"cannot load the image processor of `{path}`: {first_line(error)}"
        return UsageError(text, f"install that package, or {listed}")
    kind, package = named[1], named[2].lower()
    command = f"pip install {package}"
    if package == "torchvision":
        command += ", in the release for your torch"
    return UsageError(f"`{path}` needs {package}, for its {kind}", f"{command}; or {listed}")


def of(model: Any) -> Any:
    """The processor of a model in memory that reads images, None of any other."""
    return getattr(model, "processor", None)


def of_parts(kind: Any, image_processor: Any, tokenizer: Any, **options: Any) -> Any:
    """A processor of a class of transformers; `options` are those of its processor_config.json."""
    parts = {"image_processor": image_processor, "tokenizer": tokenizer}
    names = kind.get_attributes()
    if "video_processor" in names:
        parts["video_processor"] = _NoVideos()
        kind = _without_videos(kind)
    if missing := [name for name in names if name not in parts]:
        raise DataError(
            f"{kind.__name__} also needs a {missing[0]}, which rlvr has no use for",
            "name a policy that reads only images and text",
        )
    _without_spoken_numbers(kind)
    return kind.from_args_and_dict([parts[name] for name in names], options)


def require_pillow() -> None:
    """An error where Pillow is not installed."""
    try:
        importlib.import_module("PIL.Image")
    except ImportError as error:
        raise UsageError(
            "images need Pillow, which is not installed", "pip install 'rlvr[images]'"
        ) from error


def _class(path: Path) -> Any:
    """The class of a directory's processor: by name in its files, else by the kind of model."""
    import transformers
    from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES

    named = [_json(path / file).get(_CLASS) for file in (*FILES, "tokenizer_config.json")]
    named.append(PROCESSOR_MAPPING_NAMES.get(_json(path / "config.json").get("model_type", "")))
    name = next(filter(None, named), None)
    kind = getattr(transformers, str(name), None)
    if kind is None:
        raise DataError(
            f"`{path}` needs the processor {name}, which this transformers does not have",
            "install a newer transformers",
        )
    return kind


class _NoVideos(dict[str, Any]):
    """A stand-in for the settings of a video processor."""

    num_frames = fps = None


@functools.cache
def _without_videos(kind: Any) -> Any:
    """A class of processors that takes the stand-in for a video processor, and never calls it.

    The class itself wants one that torchvision is needed for.
    """
    own = {"check_argument_for_proper_class": lambda self, name, argument: None}
    return type(kind.__name__, (kind,), own | {"__module__": kind.__module__})


def _without_spoken_numbers(kind: Any) -> None:
    """Lets SmolVLM's processor be created without num2words, which spells the frames of videos.

    The class cannot be created where its module has none; for images it is never called.
    """
    module = importlib.import_module(kind.__module__)
    if getattr(module, "num2words", True) is None:
        module.num2words = str  # type: ignore[attr-defined]


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
