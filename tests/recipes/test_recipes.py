"""The recipes, against the numbers of the papers as written down here a second time."""

import re
import tomllib

import pytest

from rlvr_cli import config, registry, run_config
from rlvr_cli.algorithms import objective
from rlvr_cli.run_config import RECIPES

PAPERS = [name for name in run_config.recipes() if not name.startswith("builtin")]
every_recipe = pytest.mark.parametrize("name", PAPERS)

# Family: model, steps, prompts a step, prompts a mini-batch, completions a prompt, longest
# completion. Anchored Policy Optimization, Table 6; arXiv:2605.04066, 5.1; arXiv:2602.04620,
# Table I; When Sharpening Becomes Collapse, 4.1; arXiv:2505.22617 and its authors' scripts of the
# 7B model; arXiv:2510.04028, C.2. A star marks what the paper does not state.
FAMILIES = {
    "apo": ("Qwen/Qwen2.5-Math-7B", 240, 512, 32, 8, 2048 - 512),
    "apmpo": ("Qwen/Qwen2.5-Math-1.5B-Instruct", 400, 512, "*", 8, "*"),
    "apmpo-vl": ("Qwen/Qwen2.5-VL-3B-Instruct", 400, 512, "*", 8, "*"),
    "quatro": ("Qwen/Qwen2.5-Math-1.5B", "*", 256, 64, 8, 1024),
    "iac": ("Qwen/Qwen3-4B", 2000, 64, "*", 8, "*"),
    "iac-8b": ("Qwen/Qwen3-8B", 2000, 64, "*", 8, "*"),
    "entropy": ("Qwen/Qwen2.5-7B", "*", 256, 32, 8, 8192),
    "two-stage": ("Qwen/Qwen2.5-Math-7B", "*", 1024, 256, 8, "*"),
    # Of the authors' scripts, in their repositories or in verl.
    "vespo": ("Qwen/Qwen3-30B-A3B-Base", "*", 2048, 256, 8, 15360),
    "ce-gppo": ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "*", 128, 16, 8, 16384),
    "maxrl": ("Qwen/Qwen3-1.7B-Base", "*", 256, 256, 16, 4096),
    "dppo": ("Qwen/Qwen3-30B-A3B-Base", "*", 256, 32, 16, 8192),
    "m2po": ("Qwen/Qwen2.5-Math-7B", 1000, 256, 64, 8, 2560),
    "cppo": ("Qwen/Qwen3-30B-A3B-Base", 560, 256, 32, 16, 16384),
    "up-dapo": ("Qwen/Qwen3-14B-Base", "*", 512, 32, 16, 20480),
    "fipo": ("Qwen/Qwen2.5-32B", "*", 512, 64, 16, 20480),  # arXiv:2603.19835, Table 2
    "sapo": ("Qwen/Qwen3-30B-A3B-Base", 2000, 256, 32, 16, 8192),
    "gspo-token": ("Qwen/Qwen2.5-3B-Instruct", 500, 512, 128, 16, 8192),
    "otb": ("Qwen/Qwen2.5-7B", "*", 128, 128, 8, 2048),
    "top-entropy": ("Qwen/Qwen3-14B-Base", "*", 512, 32, 16, 20480),
    "signed": ("Qwen/Qwen2.5-Math-7B", 20 * (7500 // 1024), 1024, 256, 8, 3072),
    "aspo": ("deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B", "*", 64, 16, 16, 32768),
    "gdpo": ("Qwen/Qwen2.5-1.5B-Instruct", 15 * (4000 // 512), 512, 128, 4, 1024),
}

# Recipe: family, parts of the objective with the options that the paper decides.
CLIP = {"clip_low": 0.2, "clip_high": 0.2}
DAPO = {"clip_low": 0.2, "clip_high": 0.28}
KL, ENTROPY = {"beta": 0.001, "aggregation": "objective"}, {"coef": 1e-4}
VERL_KL = {"beta": 0.001, "estimator": "k3", "aggregation": "token-mean"}
IN_REWARD = {"beta": 0.001, "per": "completion"}
DUAL = {"c": 3}  # verl's default, which all that it trained with a clipped ratio of tokens had
TOKENS, COMPLETIONS = {"aggregation": "token-mean"}, {"aggregation": "seq-mean-token-mean"}
FAC = {"e_min": 0.2, "e_max": 0.4, "clip_low": 0.2, "eps": 1e-6, "tanh": True, "bounds": "upper"}
TABLE = {
    "apo": ("apo", {"apo": CLIP | {"k": 8, "lam": 1.05, "beta": 0.1}, "dual-clip": DUAL}),
    "apo-grpo": ("apo", {"grpo": CLIP | TOKENS, "dual-clip": DUAL}),
    "apo-grpo-kl": (
        "apo",
        {"grpo": CLIP | TOKENS, "dual-clip": DUAL, "kl": {"beta": 0.01, "on": "all"}},
    ),
    "apo-grpo-kl-errors": (
        "apo",
        {"grpo": CLIP | TOKENS, "dual-clip": DUAL, "kl": {"beta": 0.01, "on": "errors"}},
    ),
    "apo-nsr": ("apo", {"nsr": CLIP, "dual-clip": DUAL}),
    "apmpo": ("apmpo", {"apmpo": FAC | {"gamma": 0.8, "kl": 0.001, "ddof": 0}}),
    "apmpo-grpo": ("apmpo", {"grpo": CLIP | COMPLETIONS, "kl": KL}),
    "apmpo-dapo": ("apmpo", {"dapo": DAPO, "kl": KL}),
    "apmpo-gmpo": ("apmpo", {"gmpo": {"clip": 0.4}, "kl": KL}),
    "apmpo-vl": ("apmpo-vl", {"apmpo": FAC | {"gamma": 0.8, "kl": 0.001, "ddof": 0}}),
    "apmpo-vl-grpo": ("apmpo-vl", {"grpo": CLIP | COMPLETIONS, "kl": KL}),
    "apmpo-vl-dapo": ("apmpo-vl", {"dapo": DAPO, "kl": KL}),
    "apmpo-vl-gmpo": ("apmpo-vl", {"gmpo": {"clip": 0.4}, "kl": KL}),
    "quatro": ("quatro", {"quatro": {"delta": 0.1}, "kl": VERL_KL}),
    "quatro-stress-rate": ("quatro", {"quatro": {"delta": 0.1}, "kl": VERL_KL}),
    "quatro-stress-epochs": ("quatro", {"quatro": {"delta": 0.1}, "kl": VERL_KL}),
    "quatro-grpo": ("quatro", {"grpo": CLIP | TOKENS, "dual-clip": DUAL, "kl": VERL_KL}),
    "quatro-gspo": ("quatro", {"gspo": CLIP, "kl": VERL_KL}),
    "quatro-gmpo": ("quatro", {"gmpo": {"clip": 0.2}, "kl": VERL_KL}),
    "quatro-gpg": ("quatro", {"gpg": {"alpha": "nonzero"}, "kl": VERL_KL}),
    "quatro-cispo": ("quatro", {"cispo": {"cap": 1.2, "floor": 0.8}, "kl": VERL_KL}),
    "quatro-dapo": ("quatro", {"dapo": DAPO, "kl": VERL_KL}),
    "iac": ("iac", {"grpo": CLIP, "iac": {"alpha": 1}, "dual-clip": DUAL, "kl": {}}),
    "iac-grpo": ("iac", {"grpo": CLIP, "dual-clip": DUAL, "kl": {}}),
    "iac-dr-grpo": ("iac", {"dr-grpo": CLIP, "dual-clip": DUAL}),
    "iac-rloo": ("iac", {"rloo": CLIP, "dual-clip": DUAL, "kl-in-reward": IN_REWARD}),
    "iac-reinforce-pp": (
        "iac",
        {
            "reinforce-pp": CLIP | {"zero_equal": False, "kl": 0},
            "dual-clip": DUAL,
            "kl-in-reward": IN_REWARD,
        },
    ),
    "iac-dapo": ("iac-8b", {"dapo": DAPO, "overlong": {}}),
    "dapo-iac": ("iac-8b", {"dapo": DAPO, "overlong": {}, "iac": {"alpha": 1}}),
    "dapo-iac-dlc": ("iac-8b", {"dapo": DAPO, "overlong": {}, "iac": {"alpha": 1}, "dlc": {}}),
    "clip-cov": (
        "entropy",
        {
            "grpo": {"clip_low": 1, "clip_high": 1} | TOKENS,
            "clip-cov": {"share": 2e-4, "low": 1, "high": 5},
        },
    ),
    "kl-cov": (
        "entropy",
        {
            "grpo": {"clip_low": 1, "clip_high": float("inf")} | TOKENS,
            "kl-cov": {"share": 2e-3, "beta": 1},
        },
    ),
    "grpo-n": (
        "two-stage",
        {
            "grpo": CLIP | COMPLETIONS,
            "dual-clip": DUAL,
            "negative-only": {},
            "kl": KL,
            "entropy": ENTROPY,
        },
    ),
    "gspo-n": ("two-stage", {"gspo": CLIP, "negative-only": {}, "kl": KL, "entropy": ENTROPY}),
    "two-stage-grpo": (
        "two-stage",
        {"grpo": CLIP | COMPLETIONS, "dual-clip": DUAL, "kl": KL, "entropy": ENTROPY},
    ),
    "two-stage-gspo": ("two-stage", {"gspo": CLIP, "kl": KL, "entropy": ENTROPY}),
}
TABLE |= {
    "vespo": ("vespo", {"vespo": {"k_pos": 2, "lambda_pos": 3, "k_neg": 3, "lambda_neg": 2}}),
    "ce-gppo": ("ce-gppo", {"ce-gppo": CLIP | {"beta1": 0.75, "beta2": 1}, "dual-clip": {"c": 10}}),
    "maxrl": ("maxrl", {"maxrl": CLIP | TOKENS, "dual-clip": DUAL}),
    "m2po": ("m2po", {"m2po": {"threshold": 0.04}}),
    "dppo-tv": ("dppo", {"dppo-tv": {"low": 0.15, "high": 0.15, "aggregation": "constant"}}),
}
TABLE |= {
    "cppo": (
        "cppo",
        {"cppo": {"delta": 0.2, "delta_b": 0.02, "growth": 2, "w_min": 0.8, "ddof": 1}},
    ),
    "up-dapo": ("up-dapo", {"dapo": DAPO, "overlong": {"buffer": 4096}, "up": {}}),
    "fipo": (
        "fipo",
        {
            "fipo": DAPO | {"half_life": 32, "f_low": 0, "f_high": 0.2, "safety": 10},
            "overlong": {"buffer": 4096},
        },
    ),
}
BONUS = {"coef": 1e-3}  # of the entropy, a default of early versions of verl
TABLE |= {
    "sapo": ("sapo", {"sapo": {"tau_pos": 1, "tau_neg": 1.05}, "overlong": {"buffer": 4096}}),
    "gspo-token": ("gspo-token", {"gspo-token": {"clip_low": 3e-4, "clip_high": 4e-4}}),
    "otb": ("otb", {"otb": CLIP, "dual-clip": DUAL}),
    "top-entropy": (
        "top-entropy",
        {"dapo": DAPO, "overlong": {"buffer": 4096}, "top-entropy": {"share": 0.2}},
    ),
    "psr": ("signed", {"psr": CLIP, "entropy": BONUS}),
    "nsr": ("signed", {"nsr": CLIP, "entropy": BONUS}),
    "w-reinforce": ("signed", {"w-reinforce": CLIP | {"positive": 0.1}, "entropy": BONUS}),
    "gdpo": ("gdpo", {"gdpo": CLIP | TOKENS, "entropy": BONUS}),
    "aspo": (
        "aspo",
        {"aspo": CLIP | COMPLETIONS | {"dual_clip": 3}, "kl": KL, "overlong": {"buffer": 16}},
    ),
}
RATES = {"quatro-stress-rate": 1e-5, "clip-cov": 5e-7, "kl-cov": 5e-7}
EPOCHS = {"quatro-stress-epochs": 5, "aspo": 3}
WEIGHT_DECAY = {
    "quatro": 0.0,
    "entropy": 0.0,
    "ce-gppo": 0.1,
    "gspo-token": 0.1,
    "top-entropy": 0.1,
    "aspo": 0.1,
    "up-dapo": 0.1,
    "fipo": 0.1,
}
WARMUP = {  # steps
    **dict.fromkeys(("ce-gppo", "top-entropy", "aspo", "up-dapo", "fipo"), 10),
    "gspo-token": 500 * 0.05,
}
GRADIENT_NORM = {"maxrl": 0.3}
OLD_LOGPROBS = {"cppo": "rollout", "dppo-tv": "rollout"}


def parts_of(spec):
    """Names and options of the parts of an objective, in order."""
    base, *modifiers = spec.split("+")
    parts = [registry.parse("objectives", base)]
    return dict(parts + [registry.parse("modifiers", modifier) for modifier in modifiers])


def test_the_table_has_every_recipe():
    assert sorted(TABLE) == PAPERS


@every_recipe
def test_the_numbers_are_those_of_the_paper(name):
    _, made = run_config.recipe(name)
    family, parts = TABLE[name]
    run, rollout, update = made.train, made.rollout, made.train_step
    found = (run.model, run.steps, run.prompts_per_step, update.mini_batch_prompts)
    found += (rollout.num_generations, rollout.max_new_tokens)
    for value, printed in zip(found, FAMILIES[family], strict=True):
        assert printed in ("*", value)
    assert (rollout.temperature, rollout.top_p, rollout.top_k) == (1, 1, 0)
    assert update.learning_rate == RATES.get(name, 1e-6)
    assert update.epochs == EPOCHS.get(name, 1)
    assert update.weight_decay == WEIGHT_DECAY.get(family, 0.01)
    assert update.max_grad_norm == GRADIENT_NORM.get(family, 1)
    assert update.warmup_updates == WARMUP.get(family, 0) * (
        update.epochs * run.prompts_per_step // update.mini_batch_prompts
    )
    assert update.old_logprobs == OLD_LOGPROBS.get(name, "recompute")
    assert (rollout.max_draws > 1) == ("dapo" in parts or family in ("entropy", "fipo"))
    given = parts_of(run.algo)
    assert list(given) == list(parts)
    for part, options in parts.items():
        assert {key: given[part][key] for key in options} == options


@every_recipe
def test_what_verl_does_unless_told_otherwise_is_the_same_in_all_that_it_trained(name):
    """The rule of docs/errata.md for what no paper prints, on the dual clip."""
    family, _ = TABLE[name]
    spec = run_config.recipe(name)[1].train.algo
    parts, made = parts_of(spec), objective.build(spec)
    is_clipped = made.clip is not None and made.ratio == "token"
    own = bool({"dapo", "ce-gppo", "fipo"} & set(parts))  # their authors' code has 10
    without = {"clip-cov", "kl-cov"} & set(parts)  # losses of verl's without a dual clip
    none = ("apmpo", "apmpo-vl", "signed", "gdpo")  # no trainer named, or a verl without one
    is_verls = family not in none and not without
    bound = 10 if own else 3 if is_verls and is_clipped else None
    assert made.dual_clip == bound
    assert ("dual-clip" in parts) == (bound is not None and not {"dapo", "fipo"} & set(parts))


@every_recipe
def test_every_option_is_written_out(name):
    _, made = run_config.recipe(name)
    objective.build(made.train.algo)
    given, whole = (
        re.findall(r"[a-z-]+(?=[:+]|$)|\w+(?==)", spec)
        for spec in (made.train.algo, objective.canonical(made.train.algo))
    )
    assert given == [name for name in whole if name != "longest"]  # of rollouts without a limit


@every_recipe
def test_every_knob_that_shapes_the_updates_is_written_out(name):
    raw = tomllib.loads((RECIPES / f"{name}.toml").read_text())
    assert raw["train"].keys() >= {"algo", "model", "steps", "prompts_per_step"}
    of_dlc = {"memory_model", "mu"} if "dlc" in raw["train"]["algo"] else set()
    assert raw["rollout"].keys() - of_dlc == {
        "num_generations", "max_new_tokens", "temperature", "top_p", "top_k", "max_draws",
    }  # fmt: skip
    assert raw["rollout"].keys() >= of_dlc
    assert raw["train-step"].keys() - {"old_logprobs"} == {
        "learning_rate", "warmup_updates", "schedule", "epochs", "mini_batch_prompts",
        "weight_decay", "max_grad_norm",
    }  # fmt: skip


@every_recipe
def test_the_summary_names_paper_and_place(name):
    (summary, *notes), _ = run_config.recipe(name)
    papers = r"arXiv:\d{4}\.\d{5}|Anchored Policy Optimization|When Sharpening Becomes Collapse"
    places = r"sec\.|Table|appendix|Fig\.|the authors' script|verl's script"
    assert re.search(rf"\(({papers}), ({places}).*\)\.$", summary), summary
    assert len(summary) <= 98
    assert re.search("not state", " ".join(notes), re.I)


@every_recipe
def test_what_a_note_refers_to_is_there(name):
    notes = " ".join(run_config.recipe(name)[0])
    for other in re.findall(r"(?:recipe|is) `([a-z-]+)`", notes):
        assert other in run_config.recipes()
    for modifier in re.findall(r"`\+([^`]+)`", notes):
        registry.canonical("modifiers", modifier)


SMALL = ["--model=builtin", "--max-new-tokens=16", "--steps=1", "--prompts-per-step=2"]


@every_recipe
def test_a_dry_run_of_the_builtin_policy_shows_the_recipe(rlvr, tmp_path, name):
    algo = re.sub(r"buffer=\d+", "buffer=4", run_config.recipe(name)[1].train.algo)
    words = [*SMALL, "--mini-batch-prompts=1", "--out", tmp_path / "run", "--dry-run"]
    if "overlong" in algo:
        words += ["--algo", algo]
    if "gdpo" in algo:
        words += ["--verifier", "expression+0.5*format"]
    ran = rlvr("train", "--recipe", name, *words)
    assert ran.code == 0, ran.err
    shown = tomllib.loads(ran.out)
    n = FAMILIES[TABLE[name][0]][4]
    assert (shown["train"]["model"], shown["rollout"]["num_generations"]) == ("builtin", n)
    assert shown["train"]["algo"] == algo
    assert not (tmp_path / "run").exists()


def test_a_recipe_trains(rlvr, tmp_path):
    words = [*SMALL, "--eval-every=0", "--learning-rate=1e-4", "--out", tmp_path / "run"]
    ran = rlvr("train", "--recipe", "quatro-grpo", *words)
    assert ran.code == 0, ran.err
    assert (tmp_path / "run" / "steps" / "000001" / "update" / "_manifest.json").exists()


# Layers.


def test_a_recipe_lies_under_the_file_and_the_flags(tmp_path):
    (tmp_path / "run.toml").write_text("[train]\nsteps = 7\nseed = 3\nmodel = 'builtin'\n")
    made = run_config.load([tmp_path / "run.toml"], {"train": {"seed": 4}}, "apo")
    assert (made.train.steps, made.train.seed, made.train.prompts_per_step) == (7, 4, 512)
    assert made.train_step.mini_batch_prompts == 32


def test_a_recipe_means_what_it_says():
    made = run_config.load([], {"train": {"model": "builtin"}}, "quatro")
    assert run_config.is_builtin(made)
    assert made.train.eval_every == config.RunOptions().eval_every  # 10 in `builtin`
    assert made.rollout.num_generations == 8  # 16 in `builtin`


def test_the_recipe_of_the_builtin_run_is_builtin():
    assert run_config.load([], {}) == run_config.load([], {}, "builtin")


@pytest.mark.parametrize("words", [(), ("--dry-run",)], ids=["run", "dry-run"])
def test_a_recipe_without_prompts_says_how_to_make_them(refused, tmp_path, words):
    err = refused(2, "train", "--recipe", "apo", "--out", tmp_path / "run", *words)
    assert "recipe `apo` trains `Qwen/Qwen2.5-Math-7B`" in err and "no prompts" in err
    assert "rlvr prompts SOURCE --out DIR" in err and "--prompts DIR" in err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("quatro-gpro", "did you mean `quatro-gspo` or `quatro-grpo` or"),
        ("GRPO-N", "did you mean `grpo-n`"),
        ("zzz", "hint: see `rlvr list recipes`"),
        ("../recipes/apo", "see `rlvr list recipes`"),
    ],
)
def test_an_unknown_recipe_is_answered_with_near_ones(refused, name, hint):
    err = refused(2, "train", "--recipe", name, "--dry-run")
    assert f"unknown recipe `{name}`" in err and hint in err


def test_a_folder_is_named_by_its_recipe(rlvr):
    err = rlvr("train", "--recipe", "apo-nsr", *SMALL, "--seed=3", "--dry-run").err
    assert "this run would be in `runs/apo-nsr-seed3`" in err


def test_a_key_that_no_knob_has_is_refused(refused, tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text((RECIPES / "apo.toml").read_text().replace("top_k", "topk"))
    err = refused(2, "train", "--config", path, "--dry-run")
    assert "unknown key of [rollout] `topk`" in err and "did you mean `top_k`?" in err
