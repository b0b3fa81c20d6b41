"""Has math-verify compile what it compiles on its first use, once for all that are forked later."""

from math_verify import parse, verify

verify(gold=parse(r"\boxed{\frac{1}{2}}"), target=parse("so it is $0.5$, or 1/2"))
