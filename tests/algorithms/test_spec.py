"""An algorithm's string: its spelling, its defaults, and what is refused."""

import ast
import math
from pathlib import Path

import pytest

from rlvr_cli import registry
from rlvr_cli.algorithms import objective
from rlvr_cli.errors import UsageError


def test_the_canonical_spelling_writes_every_option_out():
    assert objective.canonical("grpo") == (
        "grpo:clip_low=0.2,clip_high=0.2,eps=1e-06,ddof=1,aggregation=seq-mean-token-mean"
    )
    spec = "quatro:ratio=length-normalized+entropy+kl:on=errors,beta=0.01"
    assert objective.canonical(spec) == (
        "quatro:delta=0.1,ratio=length-normalized,max_gap=20.0,log_ratio=true,detach=true,clamp=true"
        "+entropy:coef=0.0001"
        "+kl:beta=0.01,estimator=k3,on=errors,unbiased=auto,aggregation=objective"
    )


@pytest.mark.parametrize(
    ("folder", "name"),
    [(folder, n) for folder in ("objectives", "modifiers") for n in registry.names(folder)],
)
def test_the_defaults_are_those_of_the_papers(folder, name):
    """The test file of each states them, as in `DEFAULTS = "gspo:clip_low=0.0003,..."`."""
    spec = registry.canonical(folder, name)
    path = Path(__file__).parent / folder / f"test_{name.replace('-', '_')}.py"
    assert path.exists(), f"`{name}` has no test file {path}"
    stated = [
        ast.literal_eval(node.value)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DEFAULTS"
    ]
    assert stated == [spec], f'{path} must say DEFAULTS = "{spec}", if that is what was published'


def test_spaces_and_the_order_of_options_do_not_matter():
    spec = " grpo:clip_high=0.3, clip_low=0.1 + kl:beta=1e-3 "
    assert objective.canonical(spec) == objective.canonical("grpo:clip_low=0.10,clip_high=0.3+kl")


@pytest.mark.parametrize("value", ["1e16", "12345678901234567890", "1e300"])
def test_a_large_number_survives_the_canonical_spelling(value):
    made = objective.canonical(f"quatro:max_gap={value}")
    assert objective.canonical(made) == made


@pytest.mark.parametrize(
    "spec", ["grpo+kl+kl", "grpo+kl+entropy+kl:beta=1", "quatro+ kl + kl:on=all"]
)
def test_a_modifier_named_twice_is_refused(spec):
    with pytest.raises(UsageError, match="names a modifier twice"):
        objective.canonical(spec)


@pytest.mark.parametrize("spec", ["grpo+klx", "grpo+", "+kl", "grpo+grpo", ""])
def test_a_part_that_is_in_no_folder_is_refused(spec):
    for read in (objective.canonical, objective.build):
        with pytest.raises(UsageError, match=r"unknown (objective|modifier)"):
            read(spec)


@pytest.mark.parametrize(
    "option", ["delta=0", "delta=-0.1", "delta=nan", "max_gap=0", "max_gap=inf"]
)
def test_a_trust_region_that_is_none_is_refused_when_it_is_named(option):
    with pytest.raises(UsageError, match=r"delta|max_gap"):
        objective.build(f"quatro:{option}")


@pytest.mark.parametrize(
    "spec",
    [
        "grpo:clip_low=0.2,clip_high=0.28+negative-only",
        "gspo:clip_low=0.2,clip_high=0.2+negative-only+kl+entropy",
        "dapo+iac:alpha=1+overlong:buffer=4096",
        "grpo:aggregation=token-mean+kl:beta=0.01",
        "grpo:aggregation=token-mean+kl:beta=0.01,on=errors",
        "quatro:delta=0.01+kl:beta=0.001",
        "dapo+anchor:k=8,lam=1.05,beta=0.1",
        "dapo:clip_high=0.3+iac:alpha=1+kl:beta=0.001",
        "reinforce-pp:kl=0+kl:estimator=k3",
    ],
)
def test_every_published_pairing_is_built(spec):
    assert objective.canonical(objective.canonical(spec)) == objective.canonical(spec)
    objective.build(spec)


def test_what_a_modifier_reads_is_added_to_what_its_base_reads():
    assert objective.build("grpo+kl+is-correction").needs == {"ref_logp", "behaviour_logp"}


@pytest.mark.parametrize(
    "modifier, needed",
    [
        ("clip-cov", "stored_old_logp"),
        ("kl-cov", "stored_old_logp"),
        ("top-entropy", "stored_entropy"),
        ("is-correction", "behaviour_logp"),
        ("reject", "behaviour_logp"),
        ("off-policy-mask", "behaviour_logp"),
    ],
)
def test_a_modifier_says_what_it_reads_beside_what_the_objective_reads(modifier, needed):
    base = objective.build("reinforce-pp").needs
    assert objective.build(f"reinforce-pp+{modifier}").needs == base | {needed}


def test_bounds_at_their_edge():
    assert objective.build("apo:k=1").top_k == 1
    with pytest.raises(UsageError, match="cap must be above 0"):
        objective.build("cispo:cap=0")


def test_the_clip_of_the_geometric_mean_is_as_wide_in_nats_on_both_sides():
    low, high = objective.build("gmpo:clip=0.5").clip
    assert (1 - low, 1 + high) == pytest.approx((math.exp(-0.5), math.exp(0.5)))


@pytest.mark.parametrize(
    "spec", ["cispo:cap=0.5", "quatro:max_gap=0.5", "grpo+overlong:buffer=1", "grpo:clip_high=0"]
)
def test_a_value_just_within_its_bounds_is_built(spec):
    objective.build(spec)


@pytest.mark.parametrize("spec, kept", [("psr", "above"), ("nsr", "below")])
def test_a_choice_by_sign_of_advantages_of_one_sign_is_refused(spec, kept):
    with pytest.raises(UsageError, match=f"only has advantages {kept} 0"):
        objective.build(f"{spec}+negative-only")


@pytest.mark.parametrize("option", ["clip_high=-0.1", "clip_low=1.1", "clip_low=-0.1"])
def test_a_clip_that_is_none_is_refused(option):
    with pytest.raises(UsageError, match="clip"):
        objective.build(f"grpo:{option}")


def taking(option):
    """The specs of all parts that have an option of this name, without its value."""
    return [
        f"{start}{name}:{option}"
        for folder, start in (("objectives", ""), ("modifiers", "grpo+"))
        for name in registry.names(folder)
        if option in registry.options(folder, name)
    ]


@pytest.mark.parametrize("spec", taking("eps"))
@pytest.mark.parametrize("value", ["-1e-06", "inf", "-inf"])
def test_no_eps_turns_advantages_round_or_makes_them_all_zero(spec, value):
    with pytest.raises(UsageError, match="eps must be at 0 or above, and finite"):
        objective.build(f"{spec}={value}")


@pytest.mark.parametrize("spec", taking("ddof"))
@pytest.mark.parametrize("value", ["-1", "2"])
def test_a_deviation_is_over_the_rewards_or_over_one_less(spec, value):
    with pytest.raises(UsageError, match="one of 0, 1 was expected"):
        objective.build(f"{spec}={value}")


@pytest.mark.parametrize("spec", ["grpo+kl:beta", "apmpo:kl", "reinforce-pp:kl"])
@pytest.mark.parametrize("value", ["-0.001", "inf"])
def test_a_penalty_that_drives_the_policy_away_is_refused(spec, value):
    with pytest.raises(UsageError, match="coefficient of a KL penalty must be at 0 or above"):
        objective.build(f"{spec}={value}")


@pytest.mark.parametrize(
    "spec, said",
    [
        ("apmpo:clip_low=-0.1", "clip_low from 0 to 1"),
        ("apmpo:clip_low=1.1", "clip_low from 0 to 1"),
        ("apmpo:e_min=-0.1", "e_min at 0 or above"),
        ("apmpo:e_max=0.1", "e_max at e_min or above"),
        ("apmpo:e_max=inf", "e_max at e_min or above"),
        ("apmpo:gamma=inf", "gamma must be finite"),
        ("apmpo:gamma=-inf", "gamma must be finite"),
        ("apo:lam=inf", "all finite"),
        ("apo:beta=inf", "all finite"),
        ("grpo+anchor:z_floor=inf", "all finite"),
        ("w-reinforce:positive=-0.1", "positive must be at 0 or above"),
        ("w-reinforce:positive=inf", "positive must be at 0 or above"),
        ("grpo+entropy:coef=inf", "coef must be finite"),
        ("grpo+entropy:coef=-inf", "coef must be finite"),
        ("grpo+kl-in-reward:beta=inf", "beta must be above 0, and finite"),
    ],
)
def test_a_number_that_no_loss_can_be_made_of_is_refused(spec, said):
    with pytest.raises(UsageError, match=said):
        objective.build(spec)


@pytest.mark.parametrize(
    "spec",
    [
        "apmpo:clip_low=0,e_min=0,e_max=0",
        "apmpo:clip_low=1,gamma=-1,kl=0",
        "w-reinforce:positive=0",
        "grpo:eps=0,ddof=0",
        "grpo+entropy:coef=-0.001",
        "grpo+kl:beta=0",
    ],
)
def test_a_number_at_the_edge_of_what_is_taken_is_built(spec):
    objective.build(spec)


@pytest.mark.parametrize(
    "spec", ["reinforce++", "REINFORCE++", "reinforce++:kl=0", "reinforce+++kl"]
)
def test_the_name_of_reinforce_pp_is_no_list_of_modifiers(spec):
    for read in (objective.canonical, objective.build):
        with pytest.raises(UsageError, match=r"unknown objective `reinforce\+\+`") as refused:
            read(spec)
        assert refused.value.hint == "did you mean `reinforce:whiten=true` or `reinforce-pp`?"
