"""Models from and to a hub, through huggingface_hub."""

import importlib
import shlex
from pathlib import Path
from typing import Any

from rlvr_cli.errors import DataError, UserError, first_line
from rlvr_cli.storage import disk

_SMALL = ("*.json", "*.model", "*.txt", "*.jinja")
_WEIGHTS = ("*.safetensors", "pytorch_model*.bin")  # the first kind that there is
_OTHERS = ("*/*", "consolidated*")  # copies in other formats


def is_name(name: str) -> bool:
    """Whether a name is that of a model on a hub: no such path exists, and it looks like one."""
    return name.count("/") == 1 and not name.startswith((".", "/")) and not Path(name).exists()


def download(name: str) -> Path:
    """The folder of a model of the hub, with one kind of weights."""
    from huggingface_hub import snapshot_download

    try:
        for kind in _WEIGHTS:
            wanted = [*_SMALL, kind]
            folder = Path(
                snapshot_download(name, allow_patterns=wanted, ignore_patterns=list(_OTHERS))
            )
            if any(folder.glob(kind)):
                break
    except Exception as error:
        disk.refuse(error)
        raise DataError(
            f"there is no directory `{name}`, and the hub gave no model of that name: "
            f"{type(error).__name__}",
            "check the name and the connection, or name a local directory",
        ) from error
    return folder


def check(repo: str) -> None:
    """Refuses a name that no repository may have, and a user whom the hub does not know."""
    try:
        _utilities().validate_repo_id(repo)
    except ValueError as error:
        raise UserError(
            f"`{repo}` cannot be the name of a repository", "write it as in `user/model`"
        ) from error
    try:
        _api().whoami()
    except Exception as error:
        raise UserError(
            f"the hub does not let you upload: {first_line(error)}",
            "log in with `hf auth login`, or set HF_TOKEN",
        ) from error


def push(folder: Path, repo: str, *, private: bool) -> str:
    """Uploads the files of a folder to a repository, which is created if it is new; its address."""
    try:
        api = _api()
        repo = api.create_repo(repo, private=private or None, exist_ok=True).repo_id
        api.upload_folder(repo_id=repo, folder_path=folder)
    except Exception as error:
        upload = shlex.join(["hf", "upload", repo, str(folder)])
        raise UserError(
            f"the hub did not take `{folder}`: {first_line(error)}",
            f"the folder is complete; upload it with `{upload}`",
        ) from error
    return f"{api.endpoint}/{repo}"


def _api() -> Any:
    from huggingface_hub import HfApi

    _utilities().disable_progress_bars()
    return HfApi(library_name="rlvr")


def _utilities() -> Any:
    """Documented functions that the package's types do not export."""
    return importlib.import_module("huggingface_hub.utils")
