"""Models that scale or cap their logits, against the logits that they make themselves."""

import numpy as np
import pytest
import torch
import transformers

from rlvr_cli.errors import UserError
from rlvr_cli.kernels import reference
from rlvr_cli.models import lm_head, loading, logprobs
from rlvr_cli.protocols import Row

ROWS = [Row([20, 30, 40], [9, 8, 7, 6]), Row([3], [0, 1])]
TINY = {
    "vocab_size": 60,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 1,
}
MAMBA = {"mamba_n_heads": 2, "mamba_d_head": 8, "mamba_d_ssm": 16, "mamba_d_state": 4}
MODELS = [
    ("Gemma2", {"final_logit_softcapping": 3.0}, 1.0, 3.0),
    ("Cohere", {"logit_scale": 0.0625}, 0.0625, None),
    ("Granite", {"logits_scaling": 8.0}, 0.125, None),
    ("FalconH1", {"lm_head_multiplier": 0.25, **MAMBA}, 0.25, None),
    (
        "RecurrentGemma",
        {"logits_soft_cap": 3.0, "block_types": ["attention", "recurrent"]},
        1.0,
        3.0,
    ),
    ("Qwen2", {}, 1.0, None),
]


def tiny(name, options):
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**TINY, **options)
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    model.get_output_embeddings().weight.data.mul_(20)  # logits that a cap bends
    return model


@pytest.mark.parametrize(("name", "options", "scale", "softcap"), MODELS)
def test_scaled_and_capped_logits_have_the_models_own_statistics(name, options, scale, softcap):
    model = tiny(name, options)
    head = lm_head.of(model)
    assert (head.scale, head.softcap) == (scale, softcap)
    with torch.no_grad():
        stats, top = logprobs.with_top_k(model, ROWS, 3, temperature=0.7)
        for index, row in enumerate(ROWS):
            tokens = torch.tensor([row.prompt_token_ids + row.token_ids])
            logp_SV = (model(tokens).logits[0] / 0.7).log_softmax(-1)
            start, size = len(row.prompt_token_ids) - 1, len(row.token_ids)
            logp_TV = logp_SV[start : start + size]
            truth_T = logp_TV[range(size), row.token_ids]
            torch.testing.assert_close(stats.logp_BT[index, :size], truth_T, rtol=0, atol=1e-5)
            entropy_T = -(logp_TV.exp() * logp_TV).sum(-1)
            torch.testing.assert_close(stats.entropy_BT[index, :size], entropy_T, rtol=0, atol=1e-5)
            likeliest_TK = logp_TV.topk(3).values
            torch.testing.assert_close(top.logp_BTK[index, :size], likeliest_TK, rtol=0, atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*its attention is eager")
@pytest.mark.parametrize(("name", "options"), [m[:2] for m in MODELS])
def test_such_a_policy_can_be_loaded(tmp_path, name, options):
    model = tiny(name, options)
    model.save_pretrained(tmp_path)
    result = loading.load(tmp_path, name, TINY["vocab_size"], "cpu")
    assert type(result) is type(model)


def test_logits_made_in_an_unknown_way_are_refused(tmp_path, monkeypatch):
    model = tiny("Granite", {"logits_scaling": 8.0})
    model.save_pretrained(tmp_path)
    unscaled = lm_head.of(model)._replace(scale=1.0)
    monkeypatch.setattr(lm_head, "of", lambda model: unscaled)
    with pytest.raises(UserError, match="computes its logits in a way that rlvr does not support"):
        loading.load(tmp_path, "granite", TINY["vocab_size"], "cpu")


def test_a_scale_and_a_cap_together_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    hidden, weight = (torch.from_numpy(rng.normal(size=s)) for s in ((3, 4), (7, 4)))
    head = lm_head.OutputHead(weight, None, 0.3, 2.0)
    stats = reference.token_stats(hidden, weight, torch.tensor([0, 6, 2]), **head.options(0.7))
    truth = (head.logits(hidden) / 0.7).log_softmax(-1)[range(3), [0, 6, 2]]
    torch.testing.assert_close(stats.logp_N, truth, rtol=1e-12, atol=0)
