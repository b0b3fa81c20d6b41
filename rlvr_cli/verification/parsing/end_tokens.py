"""Special tokens that end a turn, in texts that were decoded with them."""

import re

_AT_END = re.compile(
    r"(?:\s*(?:<\|(?:im_end|endoftext|eot_id|eom_id|end_of_text|end|return)\|>|</s>|<eos>"
    r"|<end_of_turn>))+\s*\Z"
)


def stripped(text: str) -> str:
    """A text without such tokens at its end."""
    return _AT_END.sub("", text) if text.rstrip()[-1:] == ">" else text
