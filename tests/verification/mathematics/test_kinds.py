r"""Kinds of answers: each pair of gold and answer, right or wrong, by what it is a case of."""

import pytest

from rlvr_cli.verification.verifiers.math import build

RIGHT = {
    "mixed numbers": [
        ("3/2", "1 1/2"), (r"\frac32", r"1\frac12"), ("1.5", r"1 \frac{1}{2}"),
        (r"1\frac12", "1 1/2"), ("-5/2", "-2 1/2"), (r"2\frac{3}{4}", "11/4"),
        ("3/2", r"1\tfrac{1}{2}"), ("7/3", r"2\,\frac{1}{3}"), (r"3\frac{1}{2}\text{ cm}", "3.5"),
        ("9/4", "2¼"), (r"1\frac{1}{2}x", r"\frac{3x}{2}"), (r"x=2\frac13", "7/3"),
        ("1000000", "1 000 000"),
    ],
    "words that scale": [
        ("5000", r"5\text{ thousand}"), ("5000000", "5 million"), ("2500000", r"2.5\text{ million}"),
        ("24", "2 dozen"), ("500", "5 hundred"), ("120", r"5 \text{ factorial}"), ("25", "5 squared"),
        ("3000000000", r"\$3 \text{ billion}"), ("36 eggs", "3 dozen eggs"), ("0.7", "7 tenths"),
        ("5 million", "5,000,000"), ("200000", "2 hundred thousand"), ("21", "twenty-one"),
        ("5", r"\text{five}"), ("4 million people", "4000000"),
    ],
    "ends": [("x+3", "x + 3,"), ("5", "5;"), ("5", "5.,"), (r"\frac12", r"\frac12\,."), ("3", "3:")],
    "decimals that repeat": [
        (r"\frac13", r"0.\overline{3}"), (r"\frac43", r"1.\overline{3}"), (r"0.\bar{3}", r"\frac13"),
        (r"\frac16", r"0.1\overline{6}"), (r"0.\dot{3}", "1/3"), (r"0.\dot{1}4285\dot{7}", "1/7"),
        (r"0.\overline{27}", r"\frac{3}{11}"), ("1/3", "0.333..."), (r"\frac{4}{33}", r"0.\overline{12}"),
        (r"-\frac{1}{3}", r"-0.\overline{3}"), ("1", r"0.\overline{9}"), (r"\frac{1}{3}", "0.(3)"),
        (r"\frac{2}{3}", r"0.666\ldots"), (r"\frac13", r"0.\overline{33}"),
    ],
    "cases": [
        (r"\begin{cases}x=1\\y=2\end{cases}", "y=2, x=1"),
        (r"x=1,y=2", r"\begin{cases} x = 1 \\ y = 2 \end{cases}"),
        (r"\left\{\begin{array}{l}x=1\\y=2\end{array}\right.", "x=1,y=2"),
        (r"f(x)=\begin{cases}x & x\ge0\\-x & x<0\end{cases}",
         r"f(x)=\begin{cases}x, & \text{if } x\geq 0\\ -x, & \text{if } x < 0\end{cases}"),
        (r"\begin{cases}a=2\\b=\frac12\end{cases}", r"a=2,\quad b=0.5"),
        (r"\begin{cases}x=1\\y=2\end{cases}", r"x=1 \text{ and } y=2"),
        (r"\begin{cases}x=1\\y=2\end{cases}", "(x,y)=(1,2)"),
        (r"\begin{cases}x=1\\y=2\end{cases}", "(1,2)"),
        (r"\begin{aligned}x&=1\\y&=2\end{aligned}", "x=1,y=2"),
    ],
    "unions in words": [
        (r"(-\infty,1)\cup(2,\infty)", "x<1 or x>2"), ("x<1 or x>2", r"x>2 \text{ or } x<1"),
        (r"(-\infty,-3]\cup[3,\infty)", r"x \le -3 \text{ or } x \ge 3"),
        (r"x \in (-\infty, 1) \cup (2, \infty)", r"x<1, x>2"), ("(1,2)", "x>1 and x<2"),
        ("(1,2)", r"x > 1 \text{ and } x < 2"), (r"[0,1]\cup\{3\}", r"0\le x\le 1 \text{ or } x=3"),
        (r"(-\infty,0)\cup(0,\infty)", r"x \ne 0"), (r"(-\infty,1)\cup(1,\infty)", r"\mathbb{R}\setminus\{1\}"),
        (r"x<1 \text{ or } x>2", r"x \in (-\infty,1) \cup (2,\infty)"),
        (r"(-\infty,1)\cup(1,2)\cup(2,\infty)", r"x\neq 1, x\neq 2"), ("[1,3)", r"3 > x \geq 1"),
        (r"(-\infty,1)\cup(2,\infty)", r"x < 1 \lor x > 2"), (r"(\frac12,1]", r"0.5 < x \leqslant 1"),
    ],
    "complex numbers": [
        ("-1", "i^2"), (r"\sqrt{-4}", "2i"), ("i", "i^5"), (r"2\sqrt{3}i", r"\sqrt{-12}"), ("3+4i", "4i + 3"),
        (r"\frac{1}{i}", "-i"), ("2", "(1+i)(1-i)"), (r"e^{i\pi/2}", "i"), ("-4", "(1+i)^4"),
        (r"\frac{1}{2}+\frac{\sqrt3}{2}i", r"e^{i\pi/3}"), ("5", "|3+4i|"), (r"\pm 2i", r"2i, -2i"),
        (r"1\pm i", r"1+i,1-i"),
    ],
    "degrees": [
        (r"\frac12", r"\sin 30^\circ"), ("1", r"\tan 45^{\circ}"), (r"\frac{\sqrt3}{2}", r"\cos 30^\circ"),
        ("45", r"45^\circ"), (r"\frac{\pi}{2}", r"90^\circ"), (r"60^\circ", r"\frac{\pi}{3}"), ("90°", "90"),
        (r"\sin 30^\circ + \cos 60^\circ", "1"), (r"120\text{ degrees}", r"120^\circ"), ("30", "30 degrees"),
        (r"\angle A = 30^\circ", "30"), (r"2\sin(45^\circ)", r"\sqrt2"),
    ],
    "names": [
        (r"V_{\mathrm{rms}}=\frac{V_0}{\sqrt2}", r"\frac{V_0}{\sqrt2}"), (r"v_{\max}=10", "10"),
        ("10", r"v_{\text{max}} = 10"), (r"\text{Area}=25", "25"), ("25", r"\text{Area of } ABC = 25"),
        ("25", "S_{ABC}=25"), (r"f'(x)=2x", "2x"), (r"P(A \cup B) = 0.5", "0.5"), ("3", r"\angle ABC = 3"),
        (r"x_{1}=3", "3"), (r"\frac{dy}{dx}=2x", "2x"), ("7", "|AB| = 7"), ("7", r"\overline{AB} = 7"),
        ("5", r"\theta = 5"), (r"E_k=\frac12 mv^2", r"\frac{mv^2}{2}"), ("5", "a_{10}=5"), ("2", r"n! = 2"),
    ],
    "builder notation": [
        (r"\{x \mid x>2\}", r"(2,\infty)"), (r"(2,\infty)", r"\{x : x > 2\}"), (r"\{x | 1<x<3\}", "(1,3)"),
        (r"\{x \in \mathbb{R} \mid x \neq 0\}", r"(-\infty,0)\cup(0,\infty)"), (r"\{y \mid y \ge 1\}", r"[1,\infty)"),
        (r"\{x \mid x<1 \text{ or } x>2\}", r"(-\infty,1)\cup(2,\infty)"), (r"[0,1]", r"\left\{ x \,\middle|\, 0 \le x \le 1 \right\}"),
        (r"\{x \mid x \le -1\}", r"x \le -1"), (r"\{x\in\mathbb{R} : x>2\}", r"x \in (2, +\infty)"),
        (r"\{1,2\}", r"\{2,1\}"),
    ],
    "trailers": [
        (r"f(x)=cx \text{ for any } c", "f(x)=cx"), ("f(x)=cx", r"f(x)=cx, \text{ where } c \text{ is a constant}"),
        ("f(x)=cx", r"f(x) = cx \text{ for some constant } c"), (r"x=2\pi n", r"x=2\pi n, n \in \mathbb{Z}"),
        (r"x = k\pi", r"x = k\pi, \quad k \in \mathbb{Z}"), (r"x = k\pi", r"x = k\pi \text{ for any integer } k"),
        ("f(x)=kx", r"f(x)=kx \quad (k \in \mathbb{R})"), ("f(x)=ax+b", r"f(x)=ax+b \text{ for all real } a, b"),
        ("x^3+C", r"x^3+C, \text{ where } C \text{ is an arbitrary constant}"), (r"x = k\pi", r"x = k\pi \text{ where } k \in \mathbb{Z}"),
        ("f(x)=cx", r"f(x)=cx \text{ for all constants } c"),
    ],
    "vectors": [
        (r"\begin{bmatrix}1\\2\end{bmatrix}", r"\langle 1,2 \rangle"), (r"\begin{pmatrix}1\\2\\3\end{pmatrix}", "(1,2,3)"),
        (r"\langle 1,2\rangle", r"\begin{pmatrix}1\\2\end{pmatrix}"), ("(1,2)", r"\begin{pmatrix}1\\2\end{pmatrix}"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", "<1,2>"), (r"\begin{pmatrix}1/2\\2\end{pmatrix}", r"\begin{bmatrix}0.5\\2\end{bmatrix}"),
        (r"\langle 1,2\rangle", "(1,2)"), (r"\begin{pmatrix} -1 \\ \frac12 \end{pmatrix}", r"\langle -1, 1/2 \rangle"),
        (r"\begin{pmatrix}1\\\frac12\end{pmatrix}", r"\begin{pmatrix}1\\0.5\end{pmatrix}"), (r"\vec{v}=\langle 1,2\rangle", r"\langle 1,2\rangle"),
    ],
    "real numbers": [
        (r"\mathbb{R}", r"\text{all real numbers}"), (r"\mathbb R", r"(-\infty,\infty)"), (r"(-\infty, \infty)", r"x \in \mathbb{R}"),
        (r"\text{all real numbers}", r"\mathbb{R}"), (r"(-\infty,+\infty)", r"\text{All real numbers}"),
        (r"\emptyset", r"\text{no solution}"), (r"\varnothing", r"\{\}"), (r"\text{No real solutions}", r"\emptyset"),
        (r"\text{None}", "no solution"), (r"\infty", r"\text{infinity}"), (r"\infty", r"+\infty"), (r"-\infty", r"-\text{infinity}"),
    ],
    "units": [
        (r"5\text{ m/s}", r"5\text{ ms}^{-1}"), (r"5\text{ m/s}", "5 meters per second"), (r"5 \text{ km/h}", r"5\,\mathrm{km\,h^{-1}}"),
        (r"9.8\,\mathrm{m/s^2}", r"9.8\text{ m s}^{-2}"), (r"10\text{ cm}^2", r"10 \text{ square centimeters}"),
        (r"10\text{ ft}^3", r"10\text{ cubic feet}"), ("60 mph", r"60\text{ miles per hour}"), (r"6\text{ apple}", "6 apples"),
        (r"6 \text{ apples}", r"6 \text{ red apples}"), ("5", "5 km"), (r"2\sqrt3\text{ cm}", r"2\sqrt{3}"), (r"2\pi \text{ cm}", r"2\pi"),
        (r"\frac12\text{ hour}", "0.5"), (r"3\,\mathrm{kg\cdot m/s}", r"3\text{ kg m/s}"), (r"\$5", "5 dollars"), ("5", r"5\%"),
        (r"20\text{ sq. units}", "20"), ("8 kJ", r"8\text{ kJ}"),
    ],
    "names of points": [
        (r"\overline{AB}", "AB"), ("AB", r"\overline{AB}"), ("AB", "BA"), (r"\triangle ABC", r"\triangle ABC"), ("ABC", "ABC"),
        (r"\text{ABC}", "ABC"), (r"\angle ABC", r"\angle ABC"), (r"\vec{AB}", r"\overrightarrow{AB}"), ("ab", "ba"), ("xyz", "zyx"),
    ],
    "labels": [
        ("a=1,b=2", "b=2,a=1"), ("a=1,b=2", "1,2"), ("1,2", r"x_1=2,x_2=1"), ("x=1,y=2", "(x,y)=(1,2)"), ("(x,y)=(1,2)", "x=1, y=2"),
        ("x=1,y=2", "(1,2)"), (r"x=1 \text{ or } x=2", "2,1"), (r"x = 1, x = 2", r"\{1,2\}"), ("a=1,b=2", r"a = 1 \text{ and } b = 2"),
        ("(a,b)=(1,2)", "a=1,b=2"), ("m = 3, n = 4", r"n=4,\ m=3"),
    ],
    "expressions": [
        (r"2^{100}", "1267650600228229401496703205376"), (r"\frac{\sqrt5+1}{2}", r"\frac{1}{\frac{\sqrt5-1}{2}}"),
        (r"\sqrt[3]{-8}", "-2"), (r"\log_2 8", "3"), (r"\binom{5}{2}", "10"), (r"\ln(x^2+1)", r"\ln(1+x^2)"), ("y=2x+3", "2x-y+3=0"),
        ("x^2+y^2=25", "2x^2+2y^2=50"), (r"\frac{x^2-1}{x-1}", "x+1"), ("12", r"3 \times 4 = 12"), ("1,234", r"x = 1,234"), (r"\pi", r"\pi \approx 3.14"),
        (r"\sqrt{2}", r"x = \sqrt2 \approx 1.414"), ("5", "٥"), (r"\arctan 1", r"\frac\pi4"), ("0.5", ".5"), (r"5\cdot 10^3", "5000"), ("C", r"\text{(C)}"),
        ("(x-1)(x+2)", "(x+2)(x-1)"), (r"x \approx 3.14", "3.14"), (r"\text{June 20}", "June 20"), ("4:30 p.m.", r"4:30 \text{ PM}"), ("3:2", r"3 : 2"),
        (r"\{1,2\},\{3\}", r"\{3\},\{2,1\}"), ("(1,2),(3,4)", "(3,4), (1,2)"), (r"\text{Yes}", "yes"), ("[1,2,3]", "1,2,3"),
    ],
}  # fmt: skip
WRONG = {
    "spaces": [
        ("11/2", "1 1/2"), ("12", "1 2"), ("123", "1 2 3"), ("51/4", "5 1/4"), ("111/2", "11 1/2"), (r"\frac{11}{2}", r"1 \frac12"),
        ("12", r"1\ 2"), ("12", r"1\,2"), ("25", r"2 \quad 5"), ("1.5", "1 .5"), ("1/2", r"1\frac12"), ("1000", "10 00"), ("12x", "1 2x"), ("1234", "12 34"),
    ],
    "words that scale": [
        ("5", "5 hundred"), ("5", r"5\text{ thousand}"), ("2", "2 dozen"), ("5", "5 million"), ("5", r"5 \text{ factorial}"), ("5", "5 squared"),
        ("3", r"\$3\text{ billion}"), ("2", r"2 \text{ dozen eggs}"), ("5", r"5\text{ hundredths}"), ("24", "24 dozen"), ("7", "7 tenths"),
        (r"5\text{ million}", "5"), (r"5\text{ million}", r"5\text{ billion}"), ("5", r"\text{negative } 5"), ("5", "minus 5"), ("5", r"\text{fifty}"), ("5", "5 over 2"),
        ("5", "5 or more"), ("5", "5 and a half"), ("5", "5 times x"), ("5", "5 xy"), ("5", r"5\mathbf{j}"), ("3", "3 trillion"), ("5", "5 cubed"),
    ],
    "ends": [
        ("3", "x + 3,"), ("3", "x+3."), (r"\frac12", "y=x+0.5,"), ("3", "y - 3;"), ("3", r"2x + 3\,,"), ("4", "x^4,"), ("3", r"x \cdot 3,"),
        ("2", "a/2,"), ("3", "f(x)=x+3,"), ("3", r"\text{so } x + 3,"), ("3", "? + 3"), ("3", "x + 3 +"),
    ],
    "integers": [
        ("2024", "2024.0019"), ("5", "5.0000001"), ("1000000", "1000001"), ("1000000", "1000000.5"), ("5", "4.9999999"), ("0", "0.0000001"),
        ("12", "12.000001"), ("-3", "-3.0000001"), ("100", "99.99999"), ("2^{10}", "1024.0001"), ("7", r"\frac{7.000001}{1}"), ("5", "5.000001%"),
    ],
    "labels": [
        ("a=1,b=2", "2,1"), ("a=1,b=2", "a=2,b=1"), ("x=1,y=2", "(2,1)"), ("(a,b)=(1,2)", "(2,1)"), ("(a,b)=(1,2)", "b=1,a=2"), ("x=1,y=2", "y=1,x=2"),
        ("a=1,b=2,c=3", "3,2,1"), ("a=1,b=2", "a=1"), ("m=3,n=4", r"\{4,3\}"), (r"x=1 \text{ and } y=2", r"2 \text{ and } 1"), ("x_1=1,y_1=2", "2,1"), ("x=1,y=2", "x=1,z=2"),
    ],
    "points and words": [
        ("ABC", "ACB"), ("PQR", "PRQ"), (r"\text{listen}", r"\text{silent}"), ("listen", "silent"), ("ABCD", "ADCB"), (r"\triangle ABC", r"\triangle ACB"), ("XYZ", "ZYX"),
        (r"\text{even}", "odd"), ("evil", "vile"), (r"\text{BAC}", r"\text{CAB}"), ("DEF", "FED"), (r"\text{Friday}", r"\text{Monday}"), ("TRUE", "FALSE"), ("June 20", "June 21"),
    ],
    "regions": [
        (r"(-\infty,3)", r"x\le 3"), ("(1,2)", r"1\le x<2"), (r"x<1 \text{ or } x>2", "1<x<2"), (r"\mathbb{R}", r"x\neq 0"), ("2", "x>2"), ("x>2", "x<2"), (r"[2,\infty)", r"\{x\mid x>2\}"),
        ("[1,2]", "(1,2)"), ("x>2", "y>2"), (r"(-\infty,1)\cup(2,\infty)", "x<1"), (r"\{x\mid x>2\}", r"\{2\}"), (r"\infty", r"-\infty"), (r"\emptyset", "0"), (r"(2,\infty)", "2"),
    ],
    "units": [
        (r"10\text{ cm}", r"10\text{ m}"), (r"9.8\,\mathrm{m/s^2}", r"9.8\,\mathrm{m/s}"), (r"5\text{ km}", r"5000\text{ m}"), (r"6\text{ apples}", r"6\text{ oranges}"), (r"5\text{ m/s}", r"5\text{ ms}"),
        (r"5\text{ ft}", r"5\text{ square feet}"), (r"5\text{ m}^2", r"5\text{ m}^3"), ("5 hours", "5 minutes"), (r"\$5", "5 cents"), (r"5\text{ mi/h}", r"5\text{ km/h}"), (r"5\text{ kg}", r"5\text{ g}"),
    ],
    "values": [
        ("12", r"3\times 5 = 12"), ("3", "x = y + 3"), (r"\pi", "3.14"), ("-1", "i"), (r"\sin 30^\circ", r"\sin 30"), (r"\frac12", r"\sin 60^\circ"), (r"\begin{cases}x=1\\y=2\end{cases}", "x=2,y=1"),
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"), (r"\langle 1,2\rangle", r"\langle 2,1\rangle"), (r"\langle 1,2\rangle", "2,1"), ("0.12", r"0.\overline{12}"),
        ("0.3", r"0.\overline{3}"), ("1,2", "1"), ("1,2", "1,2,3"), ("1,1,2", "1,2,2"), (r"\pm 2", "2"), ("2", r"\pm 2"), ("x=k\\pi, k\\in\\mathbb{Z}", r"x=k\pi, k\in\mathbb{N}"), ("f(x)=cx", r"f(x)=cx^2 \text{ for any } c"),
        ("1.2", "1,2"), ("4:30 p.m.", "4:30 a.m."), ("6", "3!!"), ("50", "0.5"), (r"\frac{d}{dx}x^2", r"\frac{y}{x}"), ("f(2x)", "2f(x)"), ("x^2=4", "x=2"),
    ],
}  # fmt: skip


def judged(gold, answer, **options):
    verifier = build(**options)
    return verifier.judge(verifier.extract(f"So it is $\\boxed{{{answer}}}$.", True), gold, {})


def _pairs(kinds):
    return [(kind, *pair) for kind, pairs in kinds.items() for pair in pairs]


@pytest.mark.parametrize(("kind", "gold", "answer"), _pairs(RIGHT))
def test_a_right_answer_of_this_kind_is_paid(kind, gold, answer):
    assert judged(gold, answer).reward == 1.0


@pytest.mark.parametrize(("kind", "gold", "answer"), _pairs(WRONG))
def test_a_wrong_answer_of_this_kind_is_not_paid(kind, gold, answer):
    result = judged(gold, answer)
    assert result.status in ("ok", "no_answer") and result.reward == 0.0
