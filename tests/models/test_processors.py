"""Processors of policies that read images, in the layouts that checkpoints have."""

import importlib.util
import json
import shutil

import pytest

from rlvr_cli.errors import DataError, UsageError
from rlvr_cli.models import images, policy as policies, processors, tokenizers


@pytest.fixture
def path(vision, tmp_path):
    return shutil.copytree(vision.policy("qwen2_vl"), tmp_path / "policy")


def edit(file, change):
    values = json.loads(file.read_text())
    change(values)
    file.write_text(json.dumps(values))


def test_the_layout_of_earlier_checkpoints_is_read(path, vision):
    """Sizes as min_pixels and max_pixels, the template in JSON, a class that needs torchvision."""
    edit(path / "preprocessor_config.json", lambda values: values.pop("size") and values.update(
        image_processor_type="Qwen2VLImageProcessorFast", min_pixels=256, max_pixels=4096,
    ))  # fmt: skip
    (path / "processor_config.json").unlink()
    template = (path / "chat_template.jinja").read_text()
    (path / "chat_template.jinja").unlink()
    (path / "chat_template.json").write_text(json.dumps({"chat_template": template}))
    policy = policies.resolve(str(path))
    processor = tokenizers.load_processor(policy)
    assert tokenizers.has_chat_template(policy) and processor.chat_template == template
    picture = vision.picture((1, 2, 3), size=(300, 200))
    assert len(images.expanded(processor, processor.image_token, [picture])) == 12


@pytest.mark.parametrize(
    "kind", ["qwen2_vl", "qwen3_vl", "gemma3", "idefics3", "llava", "internvl"]
)
def test_the_layout_of_transformers_5_is_read(vision, tmp_path, kind):
    """One file with the settings of every part, as `save_pretrained` of a processor writes it."""
    path = shutil.copytree(vision.policy(kind), tmp_path / "policy")
    before = tokenizers.load_processor(policies.resolve(str(path)))
    parts = {"image_processor": json.loads((path / "preprocessor_config.json").read_text())}
    if "video_processor" in type(before).get_attributes():
        parts["video_processor"] = {"video_processor_type": "Qwen2VLVideoProcessor", "fps": 2}
    edit(path / "processor_config.json", lambda values: values.update(parts))
    (path / "preprocessor_config.json").unlink()
    policy = policies.resolve(str(path))
    after, picture = tokenizers.load_processor(policy), vision.picture((1, 2, 3), size=(300, 200))
    assert policies.reads_images(policy)
    assert images.expanded(after, after.image_token, [picture]) == images.expanded(
        before, before.image_token, [picture]
    )


def test_a_model_of_text_alone_reads_no_images(path):
    assert policies.reads_images(policies.resolve(str(path)))
    assert not policies.reads_images(policies.resolve("builtin"))
    edit(path / "config.json", lambda values: values.pop("vision_config"))
    assert not processors.reads_images(path)


def test_a_broken_processor_is_an_error(path):
    edit(path / "preprocessor_config.json", lambda values: values.update(patch_size="wide"))
    edit(path / "processor_config.json", lambda values: values.update(processor_class="Missing"))
    with pytest.raises(DataError, match="needs the processor Missing, which this transformers"):
        tokenizers.load_processor(policies.resolve(str(path)))


@pytest.mark.skipif(importlib.util.find_spec("torchvision") is not None, reason="it is there")
def test_a_processor_that_needs_a_package_says_which(path):
    edit(path / "processor_config.json", lambda v: v.update(processor_class="PixtralProcessor"))
    with pytest.raises(UsageError, match="needs torchvision, for its PixtralProcessor") as caught:
        tokenizers.load_processor(policies.resolve(str(path)))
    assert "pip install torchvision, in the release for your torch; or" in caught.value.hint


def test_bytes_that_are_no_image_are_an_error():
    with pytest.raises(DataError, match="an image of 3 bytes cannot be decoded"):
        images.decoded(b"abc")
