"""The files of a model's weights: those of its folder that loaders read, and no others.

A loader takes the names in `*.index.json` as paths from the folder, and adapters next to a model
as adapters of it. A name that leads outside the folder is refused, as that file is not part of the
policy. Links are followed, as in a cache of the hub.
"""

import json
import os
from pathlib import Path, PurePosixPath
from typing import Any

from rlvr_cli.errors import DataError
from rlvr_cli.storage import atomic

_CONFIG, _BASE, _ADAPTERS = "config.json", "base.json", "adapter_config.json"


def in_subfolders(folder: Path) -> list[str]:
    """The names of the weights that indexes name in folders of the folder, sorted.

    DataError where an index names a file outside, or adapters of another model are next to it.
    """
    both = all((folder / name).exists() for name in (_CONFIG, _ADAPTERS))
    if both and not (folder / _BASE).exists():
        base = _json(folder / _ADAPTERS).get("base_model_name_or_path")
        raise DataError(
            f"`{folder}` holds a model and, in {_ADAPTERS}, adapters of `{base}`: loaders take "
            "the weights of that one",
            f"merge the adapters, or move {_ADAPTERS} and their weights away",
        )
    folders = set()
    for index in sorted(folder.glob("*.index.json")):
        named = _json(index).get("weight_map")
        for name in set(named.values()) if isinstance(named, dict) else ():
            path = PurePosixPath(str(name).replace(os.sep, "/"))
            if path.is_absolute() or os.pardir in path.parts:
                raise DataError(
                    f"`{index}` names `{name}`, which is not in its folder",
                    "put the weights into the folder, or save the model again",
                )
            if len(path.parts) > 1 and (folder / path).is_file():
                folders.add(str(path))
    return sorted(folders)


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(atomic.read_bytes(path))
    except (ValueError, RecursionError):  # whoever loads it says what is wrong
        return {}
    return value if isinstance(value, dict) else {}
