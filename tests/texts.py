"""Small natural and hostile texts for tests that use no external data.

`TEXTS` maps names to texts: prose in several scripts, code, tables, logs, and text that is hard to
tokenize. `long_text(seed, size)` combines them, so that words repeat as in a real corpus.
"""

from __future__ import annotations

import random

from cs336_basics._support.text import END_OF_TEXT

PROSE = {
    "english": (
        "Once there was a small boat that couldn't float. Its owner, an old woman named Mrs. Hale, "
        "said: \"It's the left plank; I'll mend it by noon.\" She'd mended worse. By 12:30 the "
        "boat was on the water, and the gulls, who'd been watching, flew off in disgust.\n\n"
        "The next day wasn't as lucky. Rain fell for 3 hours, 15 minutes and (she counted) "
        "7 seconds. 'Never mind,' she thought -- the boat floats, doesn't it?\n"
    ),
    "german": (
        "Der Bäcker fährt frühmorgens über die Brücke; draußen ist es noch dunkel. „Grüß Gott“, "
        "ruft er dem Müller zu, „heute gibt's 40 süße Brötchen!“ Der Müller lächelt müde.\n"
    ),
    "french": (
        "L'été dernier, où qu'elle allât, Zoé emportait son cahier à carreaux. « Aujourd'hui, "
        "dit-elle, j'ai vu un cygne, deux hérons et — peut-être — un castor. »\n"
    ),
    "spanish": (
        "¿Dónde está el niño? ¡Allí, junto al árbol! Mañana cumplirá 8 años y quiere una cigüeña "
        "de papel; su abuela ya la está doblando.\n"
    ),
    "russian": (
        "Ёжик шёл по лесу и нёс гриб. «Куда ты идёшь?» — спросила белка. — «Домой, — ответил "
        "ёжик, — там тепло, чай и 2 пирога». Снег начинался медленно.\n"
    ),
    "greek": "Η θάλασσα ήταν ήρεμη το πρωί. Ο ψαράς έριξε τα δίχτυα του 3 φορές και γύρισε.\n",
    "arabic": "كان القط ينام على السطح. في الصباح، رأى ٣ طيور، ولم يتحرك من مكانه.\n",
    "hebrew": "הילדה קראה ספר ליד החלון. בחוץ ירד גשם, והיא חיכתה לחתול שלה.\n",
    "hindi": "किसान सुबह जल्दी उठा और खेत की ओर चला। उसके पास २ बैल और एक पुराना हल था।\n",
    "thai": "แมวตัวเล็กนั่งอยู่บนกำแพง มองดูฝนตก แล้วก็หลับไป ๑๐ นาที\n",
    "chinese": "小船在河上慢慢地走。老人说:“今天的风很好,我们下午三点就能到家。”孩子们笑了。\n",
    "japanese": "猫は窓のそばで雨を見ていた。「もう3時だよ」と彼女は言った。\n",
    "korean": "아침에 할머니는 시장에 가셨다. 사과 5개와 배 2개를 사서 집으로 돌아오셨다.\n",
    "vietnamese": "Buổi sáng, chị Hạnh đi chợ mua 2 cân gạo và một bó rau muống rất tươi.\n",
    "turkish": "İstanbul'da ılık bir akşamdı. Ayşe, çayını içerken denizi ve ışıkları izliyordu.\n",
}

FORMS = {
    "python": (
        "def count_pairs(words: dict[bytes, int]) -> Counter:\n"
        '    """Count adjacent symbols, each as often as its word occurs."""\n'
        "    pairs = Counter()\n"
        "    for word, n in words.items():\n"
        "        for left, right in zip(word, word[1:]):\n"
        "            pairs[left, right] += n  # O(total length)\n"
        "    return pairs\n\n\n"
        "if __name__ == '__main__':\n\tprint(count_pairs({b'low': 5})[(108, 111)] == 0x5)\n"
    ),
    "c": (
        "#include <stdint.h>\r\n"
        "static inline uint64_t mix(uint64_t x) {\r\n"
        "\tx ^= x >> 33; x *= 0xff51afd7ed558ccdULL;\r\n"
        "\treturn x ^ (x >> 33);\t/* not a hash to trust */\r\n}\r\n"
    ),
    "table": "id\tname\tprice\n1\tspoon\t0.75\n2\tkettle\t19.90\n10\tstove\t1,250.00\n" * 3,
    "log": (
        "2024-02-29T23:59:59.999Z WARN  [worker-12] retry=3 url=http://example.org/a?b=c&d=%20\n"
        "2024-03-01T00:00:00.000Z ERROR [worker-12] giving up: ENOSPC (28)\n"
    ),
    "markdown": "# Title\n\n* one\n* two\n    1. nested **bold** and `code`\n\n---\n\n> quote\n\n",
}

# All kinds of whitespace, apostrophes in all positions, complete and broken special tokens,
# characters of 1 to 4 bytes, combining marks, and runs longer than any SIMD register.
HOSTILE = {
    "empty": "",
    "one space": " ",
    "spaces": "a  b   c    d" + " " * 130 + "e" + " " * 64 + "\n" + " " * 65,
    "whitespace": "x\u00a0y\u3000z\u2028w\u0085v\u200bu\u2029\t \t\v\f \r\n\r \n\n\n \u1680\u202f",
    "apostrophes": "'s 's' ''s 'S 'll'll 'LL ' 're\u2019s can't've I'd'VE \u017f's '\u017f 'm'",
    "numbers": "1 12 123 1234 12345 ½ Ⅷ ² ٣٤ १२ 1.5e-3 0x1F 1,000,000 ①②③ 𝟘𝟙",
    "marks": "e\u0301 a\u030a\u0323 n\u0303\u0303\u0303 \u0301alone क्षि ก็ שָׁלוֹם \u200d\ufe0f",
    "emoji": "🎉🎉🎉 👩‍👩‍👧‍👦 🏳️‍🌈 🇫🇷🇩🇪 👍🏽 ☺️ 1️⃣ ❤️‍🔥a🦀b",
    "planes": "𝔘𝔫𝔦 𐍈𐌰 𓀀𓁐 \U0001f9ff\U0002070e\U000e0041\U0010ffff\uffff\ufffd\ufeff",
    "controls": "\x00\x01 \x07a\x1bb \x7f\x80\x9f\x00\x00",
    "special tokens": f"{END_OF_TEXT}a{END_OF_TEXT}{END_OF_TEXT} <|endof text|> <|endoftext| >"
    f"<|endoftext|{END_OF_TEXT}>\n{END_OF_TEXT}\n <|<|endoftext|>|>",
    "one letter": "a" * 1000 + " " + "é" * 300 + " " + "猫" * 200,
    "alternating": "ab" * 300 + "aab" * 100 + "a b" * 100 + "1a" * 100 + ".a" * 100,
    "punctuation": "...---===!!!???,,,;;;:::" * 8 + "_" * 70 + "a_b.c-d/e\\f|g" * 5,
    "new lines": "\n" * 70 + "a\n\nb\r\n\r\nc\n \nd \n\n e" + "\r\n" * 40,
}

TEXTS = {**PROSE, **FORMS, **HOSTILE}


def long_text(seed: int, num_characters: int) -> str:
    """Return documents of random natural and hostile text, separated by END_OF_TEXT.

    Words repeat as in a real corpus. The same seed gives the same text.
    """
    chooser = random.Random(seed)
    sentences = [
        line for text in (*PROSE.values(), *FORMS.values()) for line in text.splitlines(True)
    ]
    hostile = [text[: chooser.randint(1, 60)] for text in HOSTILE.values()]
    fragments: list[str] = []
    length = 0
    while length < num_characters:
        choice = chooser.random()
        if choice < 0.1:
            fragment = END_OF_TEXT
        elif choice < 0.25:
            fragment = chooser.choice(hostile)
        elif choice < 0.35:  # a number and a name that occur once
            fragment = f" {chooser.randrange(10**6)} {chooser.randbytes(3).hex()}"
        else:
            fragment = chooser.choice(sentences)
        fragments.append(fragment)
        length += len(fragment)
    return "".join(fragments)[:num_characters]
