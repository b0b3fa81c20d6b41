"""What `rlvr serve` answers to token ids with images, which vLLM's own completions do not take.

POST /v1/rlvr/completions {"prompt": [IDS], "images": [BASE64], ...}    as /v1/completions
"""

import base64
import binascii
import itertools
from typing import Any

from rlvr_cli.engines.rollout import _vllm_images
from rlvr_cli.errors import DataError, first_line
from rlvr_cli.protocols import Request
from rlvr_cli.runtime import device

_OF_SAMPLING = (
    "max_tokens", "temperature", "seed", "top_p", "top_k", "min_p", "repetition_penalty",
    "presence_penalty", "frequency_penalty", "stop", "stop_token_ids",
)  # fmt: skip
_OTHERS = (
    "model", "prompt", "images", "logprobs", "return_token_ids", "return_tokens_as_token_ids",
    "add_special_tokens", "skip_special_tokens", "repeat_penalty",
)  # fmt: skip
_numbers = itertools.count(1)


async def complete(state: Any, body: Any) -> dict[str, Any]:
    """A completion in the shape of vLLM's own; DataError of a request that cannot be answered."""
    request = _request(state, body)
    has_gpu = device.torch_device().type == "cuda"
    _vllm_images.check_attention(state.engine_client.model_config, has_gpu=has_gpu)
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    fields = {name: body[name] for name in _OF_SAMPLING if body.get(name) is not None}
    output: Any = None
    try:
        params = SamplingParams(
            **fields, logprobs=0, skip_special_tokens=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )  # fmt: skip
        prompt = _vllm_images.prompt(request)
        name = f"rlvr-images-{next(_numbers)}"
        async for given in state.engine_client.generate(prompt, params, name):
            output = given
    except (ValueError, TypeError) as error:  # of fields, lengths or images
        raise DataError(first_line(error), "send another request") from error
    first = output.outputs[0]
    logps = [step[token].logprob for token, step in zip(first.token_ids, first.logprobs or (),
                                                          strict=True)]  # fmt: skip
    choice = {
        "index": 0,
        "text": first.text,
        "token_ids": list(first.token_ids),
        "prompt_token_ids": list(output.prompt_token_ids),
        "logprobs": {"token_logprobs": logps},
        "finish_reason": first.finish_reason,
        "stop_reason": first.stop_reason,
    }
    return {"object": "text_completion", "model": body["model"], "choices": [choice]}


def _request(state: Any, body: Any) -> Request:
    """The request of a body; a field that would be left out is an error."""
    if not isinstance(body, dict) or {"model", "prompt", "images"} - body.keys():
        raise DataError("the request lacks model, prompt or images", "send all three")
    served = [model.name for model in state.openai_serving_models.base_model_paths]
    if body["model"] not in served:
        raise DataError(f"the model `{body['model']}` does not exist", f"ask for {served[0]}")
    if unknown := body.keys() - {*_OF_SAMPLING, *_OTHERS}:
        raise DataError(f"`{min(unknown)}` is not read with images", "leave it out")
    try:
        images = tuple(base64.b64decode(image, validate=True) for image in body["images"])
    except (TypeError, binascii.Error):
        raise DataError("an image is not base64", "send the bytes of its file so") from None
    return Request(list(body["prompt"]), 0, images=images)
