import json

import pytest

from rlvr_cli.stages import prompts


@pytest.fixture
def prompts_named(tmp_path):
    """Makes a directory of prompts of these ids."""

    def make(*names):
        rows = [
            {"prompt_id": name, "messages": json.dumps(f"{name}?"), "answer": name,
             "verifier": "text", "source": "names", "extra": None, "raw": None}
            for name in names
        ]  # fmt: skip
        return prompts.make_all_parts(rows, tmp_path / "named", params={"limit": len(rows)})

    return make
