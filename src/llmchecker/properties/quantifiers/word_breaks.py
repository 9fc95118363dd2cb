"""Words by the default rule of Unicode (UAX 29, word boundaries), as a regular expression.

    don't    3.14    snake_case    example.com    one word each
    well-known                                    two words
    你好                                          two words, as it needs a dictionary to join them

The rules WB4 to WB13b join characters to words. Of the segments between two boundaries those are
words that have a letter, a digit or another numeral. A finite automaton matches the expression, so
a text can be counted token by token. `(?w)` of the package `regex` is not used: it joins no letters
after a mark with an accent.
"""

# WB4: accents, joiners and formats belong to the character before them
_MARKS = r"[\p{WB=Extend}\p{WB=Format}\p{WB=ZWJ}]*"
# WB7b, WB7c
_LETTER = (
    rf"(?:\p{{WB=ALetter}}{_MARKS}|\p{{WB=Hebrew_Letter}}{_MARKS}"
    rf"(?:\p{{WB=Double_Quote}}{_MARKS}\p{{WB=Hebrew_Letter}}{_MARKS})*)"
)
# WB5, WB6, WB7
_LETTERS = (
    rf"{_LETTER}(?:(?:[\p{{WB=MidLetter}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{_MARKS})?"
    rf"{_LETTER})*"
)
_DIGIT = rf"\p{{WB=Numeric}}{_MARKS}"
# WB8, WB11, WB12
_DIGITS = (
    rf"{_DIGIT}(?:(?:[\p{{WB=MidNum}}\p{{WB=MidNumLet}}\p{{WB=Single_Quote}}]{_MARKS})?{_DIGIT})*"
)
# WB9, WB10, WB13
_RUN = rf"(?:(?:{_LETTERS}|{_DIGITS})+|(?:\p{{WB=Katakana}}{_MARKS})+)"
# WB13a, WB13b
_LINK = rf"\p{{WB=ExtendNumLet}}{_MARKS}"
# WB999: letters and numerals that nothing joins, such as ideographs
_SINGLE = r"[^\P{WB=Other}\p{M}\p{P}\p{S}\p{Z}\p{C}]"

WORD = rf"(?:{_LINK})*{_RUN}(?:(?:{_LINK})+{_RUN})*(?:{_LINK})*|{_SINGLE}"
"""The regular expression of a word, in the syntax of the package `regex`."""
