"""A server on the loopback that answers as OpenAI-compatible ones do, each in its own shape.

Its model draws digits and operators from the prompt and the seed alone, so that servers of any
shape say the same. `chat_server.py` has what it does beside that: faults, keys, delays.
"""

import contextlib
import random
import runpy
import threading
from pathlib import Path

_chat = runpy.run_path(str(Path(__file__).with_name("chat_server.py")))
HANG_UP = _chat["HANG_UP"]
MODEL = "policy-of-a-test"
IDS, END, LOGP = range(3, 13), 1, -0.75
SHAPES = ("vllm", "vllm-0.9", "sglang", "fireworks", "llamacpp")


def drawn(prompt, seed, most):
    """The ids of a completion, and why it ended."""
    chance = random.Random(f"{prompt} {seed}")
    ids = [chance.choice(IDS) for _ in range(min(most, chance.randint(1, 2 * most)))]
    return (ids, "length") if len(ids) == most else ([*ids, END], "stop")


class Completions(_chat["Chat"]):
    """The server; `change` may alter a choice before it is sent, and `text` decodes ids."""

    def __init__(self, text, shape="vllm"):
        super().__init__()
        self.RequestHandlerClass = _Handler
        self.text, self.shape, self.models = text, shape, [MODEL]
        self.change = lambda choice, body: choice
        self.prompt_tokens = None  # that it says it was sent
        self.answers_as = None  # the model that it says answers
        self.busy = 0  # how often it says that it loads before it lists its models


@contextlib.contextmanager
def running(*given):
    """A server that answers meanwhile; what it is `given` is that of Completions."""
    with Completions(*given) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


class _Handler(_chat["_Handler"]):
    def do_GET(self):
        if self.server.busy:
            self.server.busy -= 1
            return self.answer(503, {"error": {"code": 503, "message": "Loading model"}})
        if isinstance(self.server.models, int):
            return self.answer(self.server.models, b"Internal Server Error")
        owner = {"vllm-0.9": "vllm"}.get(self.server.shape, self.server.shape)
        if self.path.endswith("/models") and self.server.models is not None:
            listed = [{"id": name, "object": "model", "owned_by": owner}
                      for name in self.server.models]  # fmt: skip
            return self.answer(200, {"object": "list", "data": listed})
        self.answer(404, {"error": {"message": f"no {self.path}"}})

    def reply(self, body, fault):
        server = self.server
        if fault or (server.key and self.headers["Authorization"] != f"Bearer {server.key}"):
            return super().reply(body, fault)
        known = server.models if isinstance(server.models, list) else [MODEL]
        if body["model"] not in known:
            return self.answer(404, {"error": {"message": f"no model {body['model']}"}})
        if self.path.endswith("/chat/completions"):
            said = server.say(body["messages"][-1]["content"])
            message = {"role": "assistant", "content": said} if isinstance(said, str) else said
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
        elif isinstance(body["prompt"], str):
            choice = {"index": 0, "text": server.say(body["prompt"]), "finish_reason": "stop"}
        else:
            choice = self.of_tokens(body)
        usage = {"prompt_tokens": server.prompt_tokens or len(body.get("prompt", ""))}
        choice = server.change(choice, body)
        named = {"model": server.answers_as} if server.answers_as else {}
        self.answer(200, {"id": "1", "choices": [choice], "usage": usage, **named})

    def of_tokens(self, body):
        ids, reason = drawn(body["prompt"], body["seed"], body["max_tokens"])
        texts = [self.server.text([token]) for token in ids]
        choice = {"index": 0, "text": self.server.text(ids), "finish_reason": reason}
        if self.server.shape == "llamacpp":
            content = [{"id": token, "token": text, "logprob": LOGP, "top_logprobs": []}
                       for token, text in zip(ids, texts, strict=True)]  # fmt: skip
            return choice | {"logprobs": {"content": content}}
        logprobs = {"tokens": texts, "token_logprobs": [LOGP] * len(ids), "top_logprobs": None}
        if self.server.shape == "vllm-0.9":
            logprobs["tokens"] = [f"token_id:{token}" for token in ids]
        elif self.server.shape == "fireworks":
            logprobs["token_ids"] = ids
        else:
            choice |= {"token_ids": ids, "prompt_token_ids": body["prompt"]}
        return choice | {"logprobs": logprobs}
