"""Makes math-verify load what it needs, once for all processes that are forked later."""

from math_verify import parse, verify

_PAIRS = {
    r"\boxed{\frac{1}{2}}": "so it is $0.5$, or 1/2",
    r"\boxed{(x+1)^2}": r"\boxed{x^2+2x+\sqrt{1}}",
    r"\boxed{[0,1)}": r"\boxed{0 \le x < 1}",
    r"\boxed{\{1,2\}}": r"\boxed{2 \text{ and } 1}",
    r"\boxed{4:30p..}": r"\boxed{\sin \pi}",
}
for gold, answer in _PAIRS.items():
    verify(gold=parse(gold), target=parse(answer))
