import numpy as np
import pytest
import torch

from rlvr_cli.errors import DataError
from rlvr_cli.models import images, logprobs, policy as policies
from rlvr_cli.protocols import Row

KINDS = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5", "glm4v", "gemma3", "smolvlm", "idefics3",
         "llava", "llava_next", "llava_onevision", "internvl")  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def loaded(request, vision):
    return policies.load(policies.resolve(str(vision.policy(request.param))))


@pytest.fixture(scope="module")
def red(vision):
    return vision.picture((255, 0, 0))


@pytest.fixture(scope="module")
def blue(vision):
    return vision.picture((0, 0, 255), size=(48, 32))


def prompt(loaded, *parts):
    """The token ids of a question, of texts and images."""
    content = [{"type": "text", "text": part} if isinstance(part, str) else {"type": "image"}
               for part in parts]  # fmt: skip
    text = loaded.tokenizer.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    own = tuple(part for part in parts if not isinstance(part, str))
    if not own:
        return loaded.tokenizer(text, add_special_tokens=False)["input_ids"], ()
    return images.expanded(loaded.processor, text, own), own


def row(loaded, answer, *parts):
    token_ids, own = prompt(loaded, *parts)
    ids = loaded.tokenizer(answer, add_special_tokens=False)["input_ids"]
    return Row(token_ids, ids, images=own)


def logps(loaded, rows):
    with torch.no_grad():
        stats = logprobs.completion_stats(loaded.model, rows, temperature=1.0)
    return logprobs.unpad(stats.logp_BT, rows)


def test_rows_have_the_same_logps_in_a_padded_batch_as_alone(loaded, red, blue):
    rows = [
        row(loaded, "1 + 2", red, "What is this?"),
        row(loaded, "a longer answer", "Which of", red, "and", blue, "?"),
        row(loaded, "7", "no image"),
        row(loaded, "12", blue),
    ]
    alone = [logps(loaded, [one])[0] for one in rows]
    for together, single in zip(logps(loaded, rows), alone, strict=True):
        np.testing.assert_allclose(together, single, atol=2e-5)


def test_what_an_image_shows_changes_the_logps(loaded, vision, red):
    other = vision.picture((0, 255, 0))
    red, green = (logps(loaded, [row(loaded, "abc", data, "What?")])[0] for data in (red, other))
    assert np.abs(red - green).max() > 1e-3


def test_placeholders_are_never_sampled(loaded):
    bias = loaded.model.get_output_embeddings().bias
    places = sorted(images.placeholder_ids(loaded.processor))
    assert places
    assert bias[places].eq(-torch.inf).all()
    assert bias.isinf().sum() == len(places)


def test_rows_whose_images_are_others_are_refused(loaded, red):
    token_ids, _ = prompt(loaded, red, "What?")
    with pytest.raises(DataError, match="its 2 images make"):
        logps(loaded, [Row(token_ids, [5], images=(red, red))])


def test_rows_of_a_group_with_one_image_each_have_the_logps_that_they_have_alone(loaded, red):
    """Of SmolVLM and Idefics3 the mask of pixels is as long as the images are many."""
    rows = [row(loaded, answer, red, "Which?") for answer in ("a", "bc")]
    for together, one in zip(logps(loaded, rows), rows, strict=True):
        np.testing.assert_allclose(logps(loaded, [one])[0], together, atol=2e-5)


def test_a_vision_tower_sees_an_image_of_many_rows_once(loaded, red, blue, monkeypatch):
    """The log-probs are those of a tower that sees it as often as it is shown."""
    rows = [row(loaded, answer, red, "Which?", *more)
            for answer in ("a", "bc", "d") for more in ((), (blue,))]  # fmt: skip
    base, seen = loaded.model.base_model, []
    compute = type(base).get_image_features

    def counting(self, pixel_values, *args, **kwargs):
        seen.append(pixel_values.shape[:-3] or pixel_values.shape[:1])
        return compute(self, pixel_values, *args, **kwargs)

    monkeypatch.setattr(type(base), "get_image_features", counting)
    together = logps(loaded, rows)
    for one, single in zip(rows, together, strict=True):
        np.testing.assert_allclose(logps(loaded, [one])[0], single, atol=2e-5)
    patches = {"InternVL": (9 * 3,), "LlavaNext": (9, 3), "LlavaOnevision": (9, 3)}  # tiles, of
    # which images may have different numbers
    patches |= {"Idefics3": (6, 2), "SmolVLM": (6, 2), "Gemma3": (2,), "Llava": (2,)}
    kind = next((name for name in patches if name in type(base).__name__), "")
    assert tuple(seen[0]) == patches.get(kind, (16 + 24,))
