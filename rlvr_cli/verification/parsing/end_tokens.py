"""Special tokens that end a turn, in texts that were decoded with them."""

_TOKENS = (
    "<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "<|end|>",
    "<|return|>", "</s>", "<eos>", "<end_of_turn>",
)  # fmt: skip


def stripped(text: str) -> str:
    """A text without such tokens at its end."""
    end = len(text.rstrip())
    while token := next((token for token in _TOKENS if text.endswith(token, 0, end)), ""):
        end -= len(token)
        while end and text[end - 1].isspace():
            end -= 1
    return text[:end] if end < len(text.rstrip()) else text
