"""What stages compute, as plainly as it can be written."""

from rlvr_cli.runtime import seeds


def selected(selection, names):
    """The numbers of the prompts of a step, by sorting all of them."""
    numbers = list(range(len(names)))[: selection.limit]
    size = selection.prompts_per_step
    if size is None:
        return numbers
    epoch, offset = divmod(max(selection.step, 1) - 1, len(numbers) // size)
    numbers.sort(key=lambda i: seeds.derive("order", selection.seed, epoch, names[i]))
    start = offset * size
    if not selection.draw:
        return numbers[start : start + size]
    others = numbers[:start] + numbers[start + size :]
    others.sort(key=lambda i: seeds.derive("draw", selection.seed, selection.step, names[i]))
    return others[(selection.draw - 1) * size : selection.draw * size]
