"""Words that introduce an answer, in the languages that benchmarks are translated into."""

NOUNS = """
    antwort lösung réponse reponse respuesta risposta resposta antwoord svar svaret vastaus
    odpowiedź odpověď odpoveď odgovor válasz răspuns răspunsul отговор ответ відповідь
    απάντηση cevap yanıt jawaban jawabannya jawapan sagot jibu ìdáhùn đáp\\ án câu\\ trả\\ lời
    lựa\\ chọn
    答案 答え 正解 回答 解答 答复 答 정답 답변 답 대답 الإجابة الجواب إجابة جواب תשובה התשובה उत्तर
    जवाब उत्तरः উত্তর பதில் సమాధానం ਜਵਾਬ જવાબ คำตอบ
"""
CHOSEN = """
    故选 应选 應選 选择 選擇 选 選 因此选择 所以选择 因此选 所以选 tôi\\ chọn
"""
COPULAS = """
    is are was would\\ be should\\ be must\\ be will\\ be has\\ to\\ be ought\\ to\\ be
    ist lautet wäre est es è é jest är er adalah ialah là
    είναι является 是 为 為 应为 應為 应该是 應該是 就是 は が 은 는 이 가 هي هو है होगा হল হলো คือ
"""
NAMES = """
    option choice letter answer statement alternative number opción opcion opzione opção opcao
    alternativa letra lettera lettre buchstabe möglichkeit antwort réponse respuesta variante
    вариант optie bokstav odpowiedź pilihan şık đáp\\ án 选项 選項 項 项 번 보기 الخيار विकल्प ตัวเลือก
"""


def alternation(words: str) -> str:
    """The words as the alternatives of a regular expression, the longest first.

    A space within one is written with a backslash.
    """
    listed = words.replace("\\ ", "\0").split()
    return "|".join(sorted({word.replace("\0", r"[ \t]") for word in listed}, key=len)[::-1])
