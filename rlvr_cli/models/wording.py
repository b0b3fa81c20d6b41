"""What the options put around a prompt's question, before a chat template or a tokenizer."""

from rlvr_cli.config import RolloutOptions
from rlvr_cli.errors import DataError
from rlvr_cli.models import messages as shapes, prompt_options
from rlvr_cli.models.messages import Message, Prompt


class Wording:
    """Words the prompts of resolved options; `template` is what --template names, if anything."""

    def __init__(self, options: RolloutOptions) -> None:
        self.template = prompt_options.template(options.template)
        self._question = None if self.template and self.template.is_of_chat else self.template
        self._system = prompt_options.text_of(options.system)
        self.has_system = bool(self._system)
        self._suffix = prompt_options.text_of(options.suffix)
        self._prefix = prompt_options.text_of(options.prefix)

    def question(self, text: str) -> str:
        """The question with what the options put around it."""
        asked = self._question.render(text) if self._question else text
        return self._prefix + asked + self._suffix

    def turns(self, name: str, prompt: Prompt) -> list[Message]:
        """The turns of a chat that ask the prompt's question, without a system turn of an option's.

        A text becomes a user's turn.
        """
        if isinstance(prompt, str):
            return [{"role": "user", "content": self.question(prompt)}]
        shapes.refuse_answer(prompt, name)
        turns = asking(prompt, self.question(shapes.question(prompt)))
        assert not isinstance(turns, str), "turns stay turns"
        return turns

    def with_system(self, name: str, turns: list[Message]) -> list[Message]:
        if not self.has_system:
            return turns
        if turns[0]["role"] in ("system", "developer"):
            raise DataError(
                f"--system is given, and prompt `{name}` has a system turn of its own",
                "leave --system out, or the turn",
            )
        return [{"role": "system", "content": self._system}, *turns]


def asking(prompt: Prompt, question: str) -> Prompt:
    """The prompt with another text as its question."""
    if isinstance(prompt, str):
        return question
    last = max((i for i, turn in enumerate(prompt) if turn["role"] == "user"), default=-1)
    if last < 0:
        return prompt
    asked = prompt[last] | {"content": shapes.with_text(prompt[last]["content"], question)}
    return [*prompt[:last], asked, *prompt[last + 1 :]]
