"""The choice verifier: what is read as a choice, and what is none.

The options are London, Paris, Rome and Berlin, called A to D, where nothing else is said.
"""

import json

import pytest
from hypothesis import given, strategies as st

from rlvr_cli.verification.verifiers.choice import EQUALITY, build

CITIES = ["London", "Paris", "Rome", "Berlin"]
KINDS = {
    "small letters": [
        ("answer: b", "B"),
        ("the answer is b", "B"),
        ("the correct option is c.", "C"),
        ("Final answer: d", "D"),
        ("answer is (a)", "A"),
        ("\\boxed{c}", "C"),
        ("so the answer is: a", "A"),
        ("b.", "B"),
        ("d)", "D"),
        ("I choose (b).", "B"),
        ("the answer is b because it rains", "B"),
        ("answer is a.", "A"),
        ("option b is correct", "B"),
        ("b. Paris", "B"),
        ("<answer>b</answer>", "B"),
        ('{"answer": "b"}', "B"),
    ],
    "emphasis": [
        ("**B**", "B"),
        ("Answer: **B**", "B"),
        ("**Answer: B**", "B"),
        ("**Answer:** **B**", "B"),
        ("__B__", "B"),
        ("*B*", "B"),
        ("`B`", "B"),
        ("The answer is `B`.", "B"),
        ("# Answer: B", "B"),
        ("### Answer\nB", "B"),
        ("**Final Answer**\n\nB", "B"),
        ("**Final Answer:** (B)", "B"),
        ("**The correct answer is B**", "B"),
        ("The correct answer is **B. Paris**", "B"),
        ("**B**. Paris", "B"),
        ("**B) Paris**", "B"),
        ("***B***", "B"),
        ("The answer is **option B**.", "B"),
        ("**Answer**: **(B) Paris**", "B"),
        ("## Final Answer\n**B**", "B"),
        ("> **B**", "B"),
        ("- **Answer:** B", "B"),
        ("1. **Answer:** B", "B"),
        ("## B", "B"),
    ],
    "label and text": [
        ("B. Paris", "B"),
        ("B) Paris", "B"),
        ("(B) Paris", "B"),
        ("B: Paris", "B"),
        ("B - Paris", "B"),
        ("B – Paris", "B"),
        ("[B] Paris", "B"),
        ("B.Paris", "B"),
        ("Option B: Paris", "B"),
        ("(B)  Paris.", "B"),
        ("B, Paris", "B"),
        ("B. The capital of France", "B"),
        ("B. Paris\n\nParis is the capital of France.", "B"),
        ("B\n\nParis is the capital of France.", "B"),
        ("Answer: B. Paris", "B"),
        ("The answer is B) Paris.", "B"),
        ("The answer is B: Paris, of course", "B"),
        ("The answer is (B), Paris.", "B"),
        ("The answer is Paris (B).", "B"),
        ("The answer is Paris, option B.", "B"),
        ("B → Paris", "B"),
        ("Paris (B)", "B"),
    ],
    "answer tags": [
        ("<answer>B</answer>", "B"),
        ("<answer> (B) </answer>", "B"),
        ("<answer>B. Paris</answer>", "B"),
        ("<answer>\nB\n</answer>", "B"),
        ("<answer>**B**</answer>", "B"),
        ("<answer>Option B</answer>", "B"),
        ("<answer>The answer is B</answer>", "B"),
        ("<answer>Paris</answer>", "B"),
        ("<ANSWER>B</ANSWER>", "B"),
        ("<final_answer>B</final_answer>", "B"),
        ("Reasoning about A.\n<answer>B</answer>", "B"),
        ("<answer>B", "B"),
        ("<answer>\\boxed{B}</answer>", "B"),
        ("[[B]]", "B"),
        ("<|begin_of_box|>B<|end_of_box|>", "B"),
        ("<answer>A or B</answer>", None),
        ("<answer>E</answer>", None),
        ("<answer></answer>", None),
        ("<answer>the capital</answer>", None),
        ("The answer is B. <answer>42</answer>", None),
        ("<answer>A</answer> no: <answer>B</answer>", "B"),
    ],
    "JSON": [
        ('{"answer": "B"}', "B"),
        ('{"answer":"B"}', "B"),
        ("{'answer': 'B'}", "B"),
        ('```json\n{"answer": "B"}\n```', "B"),
        ('{"reasoning": "A is wrong", "answer": "B"}', "B"),
        ('{"final_answer": "B. Paris"}', "B"),
        ('{"choice": "(B)"}', "B"),
        ('{"answer": ["B"]}', "B"),
        ('{"answer": "Paris"}', "B"),
        ('{"answer_letter": "B", "confidence": 0.9}', "B"),
        ('{"option": "B"}', "B"),
        ('{"answer": "E"}', None),
        ('{"answer": ["A", "B"]}', None),
        ('{"answer": "A", "answer": "B"}', None),
        ('{"answer": null}', None),
        ('{"answer": "none"}', None),
        ('{"selected_option": "B"}', "B"),
        ('{"Answer": "b"}', "B"),
        ('{\n  "explanation": "the answer is A at first sight",\n  "answer": "B"\n}', "B"),
    ],
    "languages": [
        ("答案：B", "B"),
        ("答案是B", "B"),
        ("答案是B。", "B"),
        ("答案为B", "B"),
        ("正确答案是（B）", "B"),
        ("故选B", "B"),
        ("所以选B。", "B"),
        ("选择B", "B"),
        ("正解はBです。", "B"),
        ("答えはB", "B"),
        ("정답은 B입니다", "B"),
        ("정답: B", "B"),
        ("La réponse est B", "B"),
        ("Réponse : B", "B"),
        ("La bonne réponse est la B.", "B"),
        ("Antwort: B", "B"),
        ("Die Antwort ist B.", "B"),
        ("Die richtige Antwort ist (B).", "B"),
        ("Die richtige Antwort lautet: B", "B"),
        ("Respuesta: B", "B"),
        ("La respuesta correcta es la B.", "B"),
        ("La respuesta es la opción B", "B"),
        ("Risposta: B", "B"),
        ("La risposta corretta è B", "B"),
        ("Resposta: B", "B"),
        ("A resposta correta é a letra B.", "B"),
        ("Ответ: B", "B"),
        ("Правильный ответ: B", "B"),
        ("Правильный ответ — B.", "B"),
        ("Ответ: Б", "B"),
        ("Odpowiedź: B", "B"),
        ("Antwoord: B", "B"),
        ("Svaret är B", "B"),
        ("Cevap: B", "B"),
        ("Jawaban: B", "B"),
        ("Jawabannya adalah B.", "B"),
        ("Đáp án: B", "B"),
        ("Đáp án là B", "B"),
        ("الإجابة: B", "B"),
        ("الإجابة الصحيحة هي B", "B"),
        ("الإجابة: ب", "B"),
        ("उत्तर: B", "B"),
        ("คำตอบ: B", "B"),
        ("Απάντηση: B", "B"),
        ("Jibu: B", "B"),
        ("答案不是B", None),
        ("答案是A或B", None),
        ("Ответ: В", None),
        ("Die Antwort ist nicht B", None),
        ("La réponse n'est pas B", None),
        ("La respuesta no es B", None),
        ("Die Antwort ist A oder B", None),
        ("Ｂ", "B"),
        ("答案：（Ｂ）", "B"),
    ],
    "text of the option": [
        ("The answer is Paris", "B"),
        ("The answer is Paris.", "B"),
        ("Answer: Paris", "B"),
        ("Paris", "B"),
        ("paris.", "B"),
        ("**Paris**", "B"),
        ("\\boxed{Paris}", "B"),
        ("\\boxed{\\text{Paris}}", "B"),
        ("The correct answer is: Paris", "B"),
        ("The answer is Paris because it is in France.", "B"),
        ('The answer is "Paris".', "B"),
        ("My final answer: Paris", "B"),
        ("The answer is Paris, Texas", None),
        ("The answer is Parisian", None),
        ("The answer is not Paris", None),
        ("The answer is Paris or Rome", None),
        ("I like Paris", None),
        ("The answer is Madrid", None),
        ("London\nParis\nRome\nBerlin", None),
        ("The answer is the city of Paris", None),
        ("Paris is nice", None),
        ("The answer is B) Rome", None),
        ("\\boxed{B) Rome}", None),
        ("B. Rome", None),
    ],
    "article and pronoun": [
        ("A man walks", None),
        ("the answer is a bit unclear", None),
        ("The answer is a matter of taste", None),
        ("Answer: A careful reading shows that it rains", None),
        ("Answer: A person who lives in France", None),
        ("Answer: I think it rains", None),
        ("Answer:\nA long story", None),
        ("A careful reading shows option (D)", None),
        ("the answer is a", "A"),
        ("The answer is A", "A"),
        ("a", "A"),
        ("Answer: A.", "A"),
        ("The answer is A because of Paris", "A"),
        ("Choose a card", None),
        ("I choose a card", None),
        ("I would go with a friend", None),
        ("So I", None),
        ("Therefore, a man", None),
        ("To answer a question", None),
        ("To answer A question", None),
        ("I pick a winner", None),
    ],
    "several": [
        ("B or C", None),
        ("The answer is B or C", None),
        ("The answer is B and C", None),
        ("The answer is B, C", None),
        ("Answer: A/B", None),
        ("Answer: B & C", None),
        ("Answer: either B or C", None),
        ("Answer: both A and B", None),
        ("The answer is (B) or (C)", None),
        ("The answer is B (Paris) or C (Rome)", None),
        ("Answer: B. Paris or C. Rome", None),
        ("\\boxed{A, B}", None),
        ("\\boxed{A \\text{ or } B}", None),
        ("\\boxed{AB}", None),
        ("A and B are correct", None),
        ("Either A or B is correct", None),
        ("A, B", None),
        ("A, B, C, D", None),
        ("ABCD", None),
        ("The answer is B/C", None),
        ("Answer: B; C", None),
        ("I choose B or C", None),
        ("Answer: A+B", None),
        ("The answer is B, and/or C", None),
    ],
    "negated": [
        ("not B", None),
        ("The answer is not B", None),
        ("The answer isn't B", None),
        ("Answer: not B", None),
        ("B is wrong", None),
        ("B is not correct", None),
        ("B is incorrect.", None),
        ("Option B is wrong", None),
        ("Answer B is wrong", None),
        ("The answer cannot be B", None),
        ("The answer is definitely not B.", None),
        ("I don't think the answer is B", None),
        ("The incorrect answer is B", None),
        ("The wrong answer is B", None),
        ("It is not B", None),
        ("I would not choose B", None),
        ("The answer is anything but B", None),
        ("All but B", None),
        ("Neither A nor B is correct", None),
        ("If the answer is B, it rains", None),
        ("Suppose the answer is B", None),
        ("Is the answer B?", None),
        ("Is B correct?", None),
        ("If B is correct, it rains", None),
        ("The answer could not be (B)", None),
        ("One might think the answer is B", None),
        ("The answer is not A but B", "B"),
        ("The answer is B, not A", "B"),
        ("A is wrong, so B", "B"),
        ("A is wrong", None),
        ("Not A. Therefore, B.", "B"),
        ("It is not B, the answer is D", "D"),
        ("rules out C, leaving D", "D"),
        ("Answer: D, not B", "D"),
        ("I doubt that the answer is B", None),
        ("never B", None),
    ],
    "enumerations": [
        ("A. London\nB. Paris\nC. Rome\nD. Berlin", None),
        ("A) London B) Paris C) Rome D) Berlin", None),
        ("(A) London (B) Paris (C) Rome (D) Berlin", None),
        ("A\nB\nC\nD", None),
        ("A, B, C and D", None),
        ("Options: A, B, C, D", None),
        ("A: it is cold\nB: it is hot\nC: it is wet\nD: it is dry", None),
        ("- A: no\n- B: maybe", None),
        ("A. London is in England.\nB. Paris is in France.", None),
        ("A. London\nB. Paris\nC. Rome\nD. Berlin\nAnswer: B", "B"),
        ("A is wrong. B is right. C is wrong.", "B"),
        ("A. London\nB. Paris\nC. Rome\nD. Berlin\n\nB", "B"),
        ("Option A is London. Option B is Paris.", None),
        ("The options are A, B, C and D.", None),
        ("The answer is one of A, B, C, D", None),
        ("Choices:\n(A) London\n(B) Paris", None),
    ],
    "none of the options": [
        ("The answer is E", None),
        ("Answer: J", None),
        ("E", None),
        ("\\boxed{E}", None),
        ("(E)", None),
        ("e", None),
        ("The answer is B. No, the answer is E", None),
        ("The answer is none of the above", None),
        ("Answer: None", None),
        ("Don't know", None),
        ("Answer: Don't know", None),
        ("ANSWER: None of the above", None),
        ("I cannot determine the answer.", None),
        ("Error: rate limited", None),
        ("Actually this one is tricky, I'm unsure", None),
        ("Answer: Z", None),
        ("The answer is 2", None),
    ],
    "contradictions": [
        ("The answer is A. The answer is B.", None),
        ("Answer: A\nAnswer: B", None),
        ("\\boxed{A} \\boxed{B}", None),
        ("\\boxed{A}\n\n\\boxed{B}", None),
        ("The answer is A. \\boxed{B}", None),
        ("<answer>A</answer><answer>B</answer>", None),
        ("A is correct. B is correct.", None),
        ("Answer: A\n\nB", None),
        ("The answer is A\n\nWait, that is wrong. Answer: B", "B"),
        ("The answer is A? No. The answer is B.", "B"),
        ("Answer: A. No, wait, B.", "B"),
        ("I first thought the answer is A, but B is correct.", "B"),
        ("The answer is B. The answer is B.", "B"),
        ("Answer: B\n\nB", "B"),
        ("The answer is A. On reflection, the answer is B.", "B"),
        ("Answer: A\nI made a mistake. Answer: B", "B"),
    ],
    "formulas": [
        ("\\boxed{A = 5}", None),
        ("\\boxed{\\Delta E}", None),
        ("\\boxed{B_1}", None),
        ("\\boxed{A \\cap B}", None),
        ("The answer is C = 3", None),
        ("The answer is B-12", None),
        ("The answer is C_2H_6", None),
        ("Answer: A^2", None),
        ("Answer: B.5", None),
        ("\\boxed{5} so the answer is B", "B"),
        ("so the answer is B \\boxed{5}", "B"),
        ("The answer is $B$", "B"),
        ("The answer is \\(B\\)", "B"),
        ("The answer is \\textbf{B}", "B"),
        ("$\\boxed{\\text{(B)}}$", "B"),
        ("\\boxed{\\textbf{(B)}\\ 12}", "B"),
        ("$$\\boxed{B}$$", "B"),
        ("\\[ \\boxed{\\mathbf{B}} \\]", "B"),
        ("\\fbox{B}", "B"),
        ("Answer: A' and B'", None),
        ("\\boxed{\\text{B. Paris}}", "B"),
        ("\\boxed{\\text{Option B}}", "B"),
        ("\\boxed{B: Paris}", "B"),
        ("\\boxed{\\mathrm{(B)\\ Paris}}", "B"),
    ],
    "phrases": [
        ("I choose B.", "B"),
        ("I would go with B", "B"),
        ("Let's go with B.", "B"),
        ("I'd pick B.", "B"),
        ("I'll go with option B.", "B"),
        ("We select (B).", "B"),
        ("Option B is correct.", "B"),
        ("B is correct.", "B"),
        ("B is the correct answer.", "B"),
        ("(B) is the best answer.", "B"),
        ("Therefore, B", "B"),
        ("Thus, (B).", "B"),
        ("So it's B.", "B"),
        ("It must be B.", "B"),
        ("My choice is B", "B"),
        ("The best choice would be B", "B"),
        ("The answer seems to be B", "B"),
        ("Answer → B", "B"),
        ("Answer = B", "B"),
        ("Answer - B", "B"),
        ("answer B", "B"),
        ("Answer (B)", "B"),
        ("The answer to this question is B", "B"),
        ("The correct answer among the options is B", "B"),
        ("The answer is most likely B.", "B"),
        ("The answer is clearly B", "B"),
        ("ANSWER: B", "B"),
        ("ANSWER IS B. A is incorrect.", "B"),
        ("The answer is, therefore, B.", "B"),
        ("Hence the correct option is (B).", "B"),
        ("The answer is the option B", "B"),
        ("Correct answer: B", "B"),
        ("Best answer: B.", "B"),
        ("Answer choice: B", "B"),
        ("Final Answer: The final answer is B", "B"),
        ("Answer: Option (B)", "B"),
        ("Answer: The correct option is B", "B"),
        ("The answer is B because A is wrong", "B"),
        ("The answer is B since C and D are wrong", "B"),
        ("B, because it rains", "B"),
        ("B because it rains", "B"),
        ("I considered (A), but it is incorrect. Final answer: B.", "B"),
        ("Final answer - B", "B"),
        ("The answer is B. Note that A is a common distractor.", "B"),
        ("I would pick B — a safe choice.", "B"),
        ("The answer is B because a car moves.", "B"),
        ("The answer would be B", "B"),
        ("That's why the answer is B.", "B"),
        ("I'm not sure, but the answer is B", "B"),
        ("My answer is B!", "B"),
        ("Answer:B", "B"),
        ("the correct answer is option (B)", "B"),
        ("Answer seems to be A.\n\nAnswer: B", "B"),
        ("Only B satisfies the condition.", "B"),
        ("Only option B is consistent with this.", "B"),
        ("So only (B) works.", "B"),
        ("A and C fail. Only B remains.", "B"),
        ("B satisfies the condition.", None),
        ("Not only B satisfies the condition.", None),
        ("If only B works, it is odd.", None),
        ("因此选择B", "B"),
        ("It rains there, which is option B.", "B"),
        ("This matches choice (B).", "B"),
        ("That is option B. But option C has rain too.", None),
        ("Final: B", "B"),
        ("It rains.\n=> B", "B"),
        ("It rains.\n\n→ B", "B"),
        ("A. It is dry.\nB. It rains.\n\nB!", "B"),
        ("B,", "B"),
        ("so B is the one.", "B"),
        ("B is one of them.", None),
        ("Team B is right.", None),
        ("A: no\nB: yes\nC: no\nD: no", "B"),
        ("(A) false\n(B) true\n(C) false\n(D) false", "B"),
        ("A ✗\nB ✓\nC ✗\nD ✗", "B"),
        ("A: no\nB: yes\nC: yes\nD: no", None),
        ("A: no\nB: yes\nC: no", None),
        ("The answer is B (Paris)", "B"),
        ("Answer is:\n\n(B)", "B"),
    ],
}
ROWS = [(kind, text, label) for kind, rows in KINDS.items() for text, label in rows]


@pytest.mark.parametrize(("kind", "completion", "label"), ROWS)
def test_a_choice_is_read_as_a_person_reads_it(kind, completion, label):
    verdict = build()(completion, answer="B", extra={"options": CITIES})
    assert verdict.extracted == label, (kind, verdict.reason)
    if label is None:
        assert (verdict.status, verdict.reward, verdict.correct) == ("no_answer", 0.0, False)
        assert verdict.reason
    else:
        assert (verdict.status, verdict.correct) == ("ok", label == "B")
        assert verdict.reward == float(label == "B")


TEN = [  # (completion, choice, number of options)
    ("The answer is I", "I", 10),
    ("The answer is I", None, 4),
    ("Answer: I'd say none", None, 10),
    ("Answer: I think it is C", "C", 10),
    ("I think so. Answer: J", "J", 10),
    ("So I", None, 10),
    ("Therefore, I", None, 10),
    ("Therefore, (I).", "I", 10),
    ("I. Introduction\nThe answer is J", "J", 10),
    ("the answer is G, H and I", None, 10),
    ("the answer is G or H", None, 10),
    ("ANSWER: I don't know", None, 10),
    ("The answer is A bit unclear", "A", 4),
    ("Answer seems to be A", "A", 4),
    ("Answer seems odd", None, 4),
    ("The answer is CBF", None, 4),
    ("\\boxed{\\langle H\\rangle \\ll \\Delta E}\n\n**Answer: D**", "D", 10),
    ("Answer: \u0392", None, 4),  # a Greek capital
    ("Answer: D" + "x" * 30_000, None, 4),
    ("Answer: D\n" + "x" * 30_000, "D", 4),
    ("answer " * 100_000, None, 4),
    ("a) First we add.\nb) Then we see.", None, 4),
    ("", None, 4),
]


@pytest.mark.parametrize(("completion", "label", "count"), TEN)
def test_a_choice_among_as_many_options_as_there_are(completion, label, count):
    verdict = build()(completion, answer="A", extra={"options": ["?"] * count})
    assert verdict.extracted == label, verdict.reason


NUMBERS = {"choices": {"text": CITIES, "label": ["1", "2", "3", "4"]}}
SWAPPED = {"choices": {"text": ["4", "3", "2", "1"], "label": ["1", "2", "3", "4"]}}
SMALL = {"choices": {"text": CITIES, "label": ["a", "b", "c", "d"]}}
CYRILLIC = {"choices": {"text": ["Лондон", "Париж", "Рим"], "label": ["А", "Б", "В"]}}
HANGUL = {"choices": {"text": ["x", "y", "z"], "label": ["가", "나", "다"]}}
TURNED = {"choices": {"text": ["London", "Paris"], "label": ["B", "A"]}}
MEDQA = {"options": {"A": "Ampicillin", "B": "Ceftriaxone", "E": "Nitrofurantoin"}}
AQUA = {"options": ["A)21", "B)21.5", "C)22", "D)22.5", "E)23"]}
LISTED = {"choices": [{"label": "A", "text": "bank"}, {"label": "B", "text": "library"}]}
BLOOD = {"options": ["AB", "A", "B", "O"]}
GERMS = {"options": ["E. coli", "S. aureus", "B. subtilis", "none", "all"]}
SENTENCES = {"options": ["A slow car", "A fast car", "I am here", "I think so, too"]}
OTHERS = [
    *((NUMBERS, text, "2") for text in (
        "2", "(2)", "Answer: 2", "The answer is 2.", "The answer is (2) Paris", "2. Paris", "**2**",
        "\\boxed{2}", "<answer>2</answer>", '{"answer": 2}', '{"answer": "2"}', "Answer: B",
        "The answer is Paris", "Option 2 is correct.", "I choose 2.", "答案是2", "정답은 2번입니다",
        "The answer is $2$", "Therefore, 2", "(2) is correct",
    )),
    *((NUMBERS, text, None) for text in (
        "The answer is 5", "The answer is 2 meters", "The answer is 2.5", "The answer is 2,000",
        "1. First, we think.\n2. Then we see.", "The answer is 1 or 2", "The answer is not 2",
        "The answer is $2", "2%", "Answer: 2/3", "12", "Answer: 12", "Answer: -2", "In 2 days",
        "2 is correct", "2 + 2", "Answer: ②",
    )),
    (NUMBERS, "1. First, we think.\n2. Then we see.\nAnswer: 3", "3"),
    (SWAPPED, "Answer: (2)", "2"),
    (SWAPPED, "Option 2 is correct.", "2"),
    (SWAPPED, "Answer: 2. 3", "2"),
    *((SWAPPED, text, None) for text in ("Answer: 2", "2", "\\boxed{2}", "<answer>2</answer>")),
    (SMALL, "B", "b"),
    (SMALL, "(b)", "b"),
    (SMALL, "Answer: b", "b"),
    (SMALL, "A man", None),
    (TURNED, "A", "A"),
    (TURNED, "The answer is Paris", "A"),
    (CYRILLIC, "Ответ: В", "В"),
    (CYRILLIC, "Ответ: б)", "Б"),
    (CYRILLIC, "Правильный ответ: Париж", "Б"),
    (CYRILLIC, "В Москве", None),
    (HANGUL, "정답: 나", "나"),
    (HANGUL, "(나)", "나"),
    (MEDQA, "The answer is Nitrofurantoin.", "E"),
    (MEDQA, "E", "E"),
    (MEDQA, "Answer: C", None),
    (AQUA, "The answer is 21.5", "B"),
    (AQUA, "B)21.5", "B"),
    (AQUA, "The answer is D)22.5.", "D"),
    (AQUA, "Answer: B)22", None),
    (LISTED, "library", "B"),
    (LISTED, "C", None),
    (BLOOD, "The answer is A", "A"),
    (BLOOD, "The answer is AB", "A"),
    (BLOOD, "The answer is O", "D"),
    (BLOOD, "Answer: C) A", None),
    (BLOOD, "C. B", "C"),
    (GERMS, "E. coli", "A"),
    (GERMS, "The answer is E. coli because it grows.", "A"),
    (GERMS, "E. coli is the cause", None),
    (GERMS, "The answer is E. coli, which grows", None),
    (GERMS, "B. S. aureus", "B"),
    (GERMS, "E", "E"),
    (SENTENCES, "Answer: A fast car", "B"),
    (SENTENCES, "Answer: I am here", "C"),
    (SENTENCES, "I think so, too", "D"),
    ({"options": ["x", "x", "y"]}, "The answer is x", None),
    ({"options": json.dumps(CITIES)}, "The answer is Paris", "B"),
]  # fmt: skip


@pytest.mark.parametrize(("extra", "completion", "label"), OTHERS)
def test_options_have_any_labels_and_texts(extra, completion, label):
    gold = "Б" if extra is CYRILLIC else "가" if extra is HANGUL else "A"
    verdict = build()(completion, answer=gold, extra=extra)
    assert verdict.extracted == label, verdict.reason


ROMAN = [
    ("(ii)", "ii"), ("Answer: ii", "ii"), ("The answer is (iii).", "iii"), ("Answer: II", "ii"),
    ("ii) Paris", "ii"), ("\\boxed{ii}", "ii"), ("The answer is i", "i"), ("B", "ii"),
    ("The answer is Paris", "ii"), ("I think so", None), ("Answer: I think", None),
    ("(i) London (ii) Paris", None), ("i) London\nii) Paris", None), ("Answer: (v)", None),
]  # fmt: skip


@pytest.mark.parametrize(("completion", "label"), ROMAN)
def test_labels_may_be_named_in_the_spec(completion, label):
    verify = build(labels=("i", "ii", "iii", "iv"))
    verdict = verify(completion, answer="ii", extra={"options": CITIES})
    assert verdict.extracted == label, verdict.reason


@pytest.mark.parametrize(
    ("gold", "reason"),
    [
        ("A,B", "it names several options: A, B"),
        ("E", "`E` is none of the options A, B, C, D"),
        ("D. Paris", "it names `D` with the text of another option"),
        *((gold, "it is none of A, B, C, D") for gold in ("", "AB", "1", "None")),
    ],
)
def test_a_gold_that_names_no_option_is_bad_and_says_why(gold, reason):
    verdict = build()("B", answer=gold, extra={"options": CITIES})
    assert (verdict.status, verdict.reward, verdict.reason) == ("bad_gold", None, reason)


@pytest.mark.parametrize("gold", ["B", "(b)", "B.", "B. Paris", " b ", "Paris", "paris"])
def test_a_gold_is_a_label_or_a_text(gold):
    assert build()("B", answer=gold, extra={"options": CITIES}).correct is True


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"options": "[1"}, "its options are neither a list nor JSON"),
        ({"options": 3}, "its options are no list of texts"),
        ({"options": [["a"], ["b"]]}, "its options are no list of texts"),
        ({"options": []}, "2 to 26 options are read, it has 0"),
        ({"choices": {"text": ["a", "b"], "label": ["A"]}}, "it has 2 options and 1 labels"),
        (
            {"choices": {"text": ["a", "b"], "label": ["A", "a"]}},
            "its labels are not short and different",
        ),
    ],
)
def test_options_of_a_shape_that_is_not_read_are_no_four_letters(extra, reason):
    verdict = build()("A", answer="A", extra=extra)
    assert (verdict.status, verdict.reason) == ("bad_gold", reason)


def test_a_gold_may_be_a_label_that_is_a_number():
    extra = {"choices": {"text": ["x", "y", "z"], "label": ["1", "2", "3"]}}
    assert build()("Answer: B", answer="2", extra=extra).correct is True
    assert build()("Answer: D", answer="2", extra=extra).status == "no_answer"


def test_options_may_be_a_list_as_text_or_a_number():
    assert build()("Answer: E", answer="E", extra={"options": '["a","b","c","d","e"]'}).correct
    assert build(options=5)("Answer: E", answer="E", extra={}).correct
    assert build()("Answer: E", answer="E", extra={}).status == "bad_gold"


@pytest.mark.parametrize("extra", [{"options": CITIES}, NUMBERS, SWAPPED, SMALL, GERMS])
def test_what_is_extracted_can_be_verified_as_a_completion_and_as_a_gold(extra):
    for label in extra.get("choices", {"label": "ABCD"})["label"]:
        verdict = build()(EQUALITY(label), answer=label, extra=extra)
        assert (verdict.correct, verdict.extracted) == (True, label)


@given(st.text() | st.text("ABI ()answer is:*\\boxed{}\n.,or", max_size=60), st.text(max_size=3))
def test_it_never_raises(completion, answer):
    for extra in ({}, {"options": CITIES}, SWAPPED):
        build()(completion, answer=answer, extra=extra)
