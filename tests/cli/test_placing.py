"""Places in stores on the command line: inputs are fetched, and outputs refused."""

import contextlib
import inspect
import json
import shutil
from pathlib import Path
from typing import get_args

import pytest

from rlvr_cli.cli import app, placing
from rlvr_cli.errors import DataError
from rlvr_cli.stores import push
from rlvr_cli.stores.store import at

OUTPUTS = [
    "train --steps 1 --out",
    "prompts task:expression --out",
    "rollout prompts --out",
    "score rollouts --cache",
    "score rollouts --out",
    "bench math500 --out",
    "bench math500 --data-dir",
    "export scores --out",
    "report scores --out",
    "convert builtin --out",
    "init --model m --data d --out",
    "lab squeeze --out",
    "lab claims --out",
]


@pytest.mark.parametrize("words", OUTPUTS)
@pytest.mark.parametrize(
    "url", ["s3://bucket/x", "gs://b/x", "s3:/bucket/x", "memory://x", "file:///x"]
)
def test_what_is_written_to_a_store_is_refused_before_anything_is_done(
    refused, words, url, tmp_path
):
    with contextlib.chdir(tmp_path):
        said = refused(2, *words.split(), url)
    assert "this machine" in said
    if "--out" in words and url == "s3://bucket/x":
        assert "`--out x`, and then run `rlvr push x s3://bucket/x`" in said
    assert not list(tmp_path.iterdir())


def parameters():
    names = [n for name in app.command_names() for n in (
        [f"{name}/{inner}" for inner in app.subcommand_names(name)] or [name]
    )]  # fmt: skip
    for name in names:
        parts = app._file(name).relative_to(app._COMMANDS).with_suffix("").parts
        module = __import__(".".join(["rlvr_cli.commands", *parts]), fromlist=["command"])
        for parameter in inspect.signature(module.command).parameters.values():
            yield name, parameter


def types_in(annotation):
    yield annotation
    for inner in get_args(annotation):
        yield from types_in(inner)


READ = {
    "prompts", "rollouts", "scores", "logprobs", "without", "configuration", "data", "heldout",
    "path", "paths", "run", "runs", "solutions", "source", "language", "clusters", "memory_model",
}  # fmt: skip


def test_every_option_that_is_a_path_is_known_as_read_or_as_written():
    paths = {
        parameter.name
        for _, parameter in parameters()
        if any(one is Path for one in types_in(parameter.annotation))
    }
    unknown = paths - READ - set(placing.WRITTEN) - set(placing.TEXTS)
    assert not unknown, "add it to placing.WRITTEN if the command writes there"


def test_a_spec_and_a_text_are_left_as_they_are():
    seen = {}
    command = placing.placed("x", lambda **values: seen.update(values))
    texts = {"stop": "s3://b/x", "verifier": "judge:url=http://h", "sources": ["hf://datasets/u/x"]}
    command(**texts, count=3, prompts=Path("a/b"), model=None)
    assert seen == {**texts, "count": 3, "prompts": Path("a/b"), "model": None}


def test_messages_name_the_url_that_was_given_and_not_its_copy(rlvr, tmp_path):
    made = tmp_path / "made" / "prompts"
    assert rlvr("prompts", "task:expression", "--limit", 2, "--out", made).code == 0
    first, again = (rlvr("eval-passk", f"file://{made}") for _ in range(2))
    for ran in (first, again):
        assert ran.code == 3 and f"error: `file://{made}` holds prompts, scores were" in ran.err
        assert ran.err.count("/rlvr/stores/") == 1  # where it is read
    copy = ran.err.partition("read in `")[2].partition("`")[0]
    assert (
        f"error: `{copy}` holds prompts" in rlvr("eval-passk", copy).err
    )  # which was given as a path


def test_what_is_sent_from_a_url_of_this_machine_is_named_by_its_path(refused):
    said = refused(2, "push", "file:///a/run", "s3://bucket/run")
    assert "`file:///a/run` is the URL of a place on this machine" in said
    assert "`rlvr push /a/run URL`" in said
    assert "is in a store already" in refused(2, "push", "s3://b/run", "s3://bucket/run")


def test_stages_read_from_a_store_what_they_would_read_here(bucket, chain, rlvr, tmp_path):
    push.push(push.read(chain), at(bucket.url("chain")))
    with contextlib.chdir(tmp_path):
        refused = rlvr("score", bucket.url("chain/rollouts"), "--out", "scores")
        assert f"--prompts {bucket.url('chain/prompts')}" in refused.err
        words = ["--prompts", bucket.url("chain/prompts")]
        ran = rlvr("score", bucket.url("chain/rollouts"), "--out", "scores", *words, "--json")
        assert ran.code == 0, ran.err
        assert json.loads(ran.out)["inputs"] == [bucket.url("chain/rollouts")]
        beside = rlvr("score", bucket.url("chain/rollouts"), *words)
        assert beside.code == 2 and "--out scores" in beside.err
        shutil.rmtree("cache")
        gone = rlvr("advantage", "scores", "--out", "advantages")
        assert gone.code == 3 and f"--rollouts {bucket.url('chain/rollouts')}" in gone.err
        named = ["--rollouts", bucket.url("chain/rollouts")]
        assert rlvr("advantage", "scores", "--out", "advantages", *named).code == 0
    for kind in ("scores", "advantages"):
        for part in (chain / kind).glob("part-*"):
            assert part.read_bytes() == (tmp_path / kind / part.name).read_bytes()
    manifest = json.loads((tmp_path / "scores" / "_manifest.json").read_text())
    assert manifest["parents"]["rollouts"]["path"] == bucket.url("chain/rollouts")
    assert manifest["digest"] == json.loads((chain / "scores/_manifest.json").read_text())["digest"]


def test_data_and_a_configuration_are_read_from_a_store(bucket, rlvr, tmp_path):
    bucket.write("data/train.jsonl", b'{"question": "1+1", "answer": "2"}\n')
    bucket.write("run.toml", b"[train]\nsteps = 7\n")
    ran = rlvr("prompts", bucket.url("data"), "--verifier", "math", "--out", tmp_path / "prompts")
    assert ran.code == 0, ran.err
    ran = rlvr("train", "--config", bucket.url("run.toml"), "--dry-run", "--out", tmp_path / "run")
    assert ran.code == 0 and "steps = 7" in ran.out


def test_a_path_that_a_pipe_brings_may_be_a_url(bucket, chain, rlvr, monkeypatch, tmp_path):
    import io

    push.push(push.read(chain / "prompts"), at(bucket.url("prompts")))
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{bucket.url('prompts')}\n"))
    assert rlvr("check", "-").code == 0


def test_a_url_that_only_a_configuration_names_is_not_fetched(bucket, rlvr, tmp_path):
    bucket.write("model/config.json", b"{}")
    for option in ("model", "prompts"):
        (tmp_path / "run.toml").write_text(f'[train]\n{option} = "{bucket.url("model")}"\n')
        bucket.server.requests.clear()
        ran = rlvr("train", "--config", tmp_path / "run.toml", "--out", tmp_path / "run")
        assert ran.code in (2, 3) and "only what the command line" in ran.err, ran.err
        assert not bucket.server.requests


def test_secrets_of_a_url_are_neither_shown_nor_stored(rlvr, chain, tmp_path):
    for words in (
        ["check", "foo://me:hunter2@host/x"],
        ["push", chain, "foo://me:hunter2@host/x"],
        ["pull", "https://me:hunter2@127.0.0.1:1/x?X-Amz-Signature=hunter2", tmp_path / "x"],
        ["train", "--out", "s3://me:hunter2@bucket/x"],
    ):
        ran = rlvr(*words)
        assert ran.code and "hunter2" not in ran.err + ran.out, ran


def test_a_policy_is_sampled_from_where_a_store_has_it(bucket, chain, rlvr, tmp_path):
    from rlvr_cli.models import policy

    push.push(push.read(policy.resolve("builtin").path), at(bucket.url("policy")))
    out = tmp_path / "rollouts"
    words = ["-n1", "--max-new-tokens=4", "--limit=1", "--out", out]
    assert rlvr("rollout", chain / "prompts", "--model", bucket.url("policy"), *words).code == 0
    recorded = json.loads((out / "_manifest.json").read_text())["paths"]["policy"]
    assert recorded == bucket.url("policy")
    with pytest.raises(DataError) as error:
        policy.recorded_in(out, recorded)
    assert f"--model {bucket.url('policy')}" in error.value.hint


@pytest.mark.slow
def test_a_run_names_what_it_read_by_its_url_and_goes_on(bucket, chain, rlvr, tmp_path):
    push.push(push.read(chain / "prompts"), at(bucket.url("prompts")))
    words = ["--model", "builtin", "--eval-every=0", "-n2", "--max-new-tokens=4"]
    named = ["--prompts", bucket.url("prompts"), "--prompts-per-step=2", "--steps=1"]
    out = ["--out", tmp_path / "run"]
    assert rlvr("train", *words, *named, *out).code == 0
    assert f'prompts = "{bucket.url("prompts")}"' in (tmp_path / "run/config.toml").read_text()
    assert rlvr("train", *out).code == 0
    shutil.rmtree(tmp_path / "cache")
    gone = rlvr("train", *out)
    assert gone.code == 3 and f"--prompts {bucket.url('prompts')}" in gone.err
    assert rlvr("train", *out, "--prompts", bucket.url("prompts")).code == 0


def test_what_is_written_down_or_into_is_pulled_first(refused, tmp_path):
    for words in (
        "track s3://b/run --to x",
        "init --model s3://b/m --data d",
        "init --model m --data s3://b/d",
    ):
        said = refused(2, *words.split())
        assert "bring it here: `rlvr pull s3://b/" in said


def test_two_files_of_a_store_are_told_apart_by_their_urls(bucket, rlvr):
    row = {"id": "a", "prompt": "1+1", "answer": "2", "completion": "2", "correct": True}
    for name, right in (("one", True), ("other", False)):
        line = json.dumps({**row, "correct": right}) + "\n"
        bucket.write(f"{name}/rows.jsonl", line.encode())
    ran = rlvr("compare", bucket.url("one/rows.jsonl"), bucket.url("other/rows.jsonl"))
    assert ran.code == 0, ran.err
    for name in ("one", "other"):
        assert bucket.url(name)[:20] in ran.out


def test_a_pattern_is_not_looked_up_in_a_store(bucket, refused):
    assert "name a folder" in refused(3, "eval-passk", bucket.url("*.jsonl"))
