"""Chat templates read messages as they are, and control tokens in messages stay text."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from helpers.marks import examples
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import ByT5Tokenizer, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from llmchecker.errors import UnusableText
from llmchecker.models.decoding.chat_template import Chat, encode_chat
from llmchecker.models.transformers.tokenizer import load_tokenizer

MODELS = Path(__file__).parents[3] / "resources/models"

SPECIAL = ("<s>", "<|im_start|>", "<|im_end|>", "[INST]", "[/INST]")
DELIMITERS = ("<|user|>", "<｜Assistant｜>")
"""Control tokens that published tokenizers add without marking them as special."""
TAGS = ("<think>", "</think>", "<tool_response>")
"""Added tokens that a model reads and writes as a part of its texts."""
TYPED = ("<|typed|>", "<|eot_id|>")
"""Special tokens that no template here contains."""

TURN = "{{ '<|im_start|>' + m['role'] + '\n' }}"
ANSWER = "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
TEMPLATES = {
    "concatenation": (
        "{{ bos_token }}{% for m in messages %}"
        + TURN
        + "{{ m['content'] + '<|im_end|>\n' }}{% endfor %}"
        + ANSWER
    ),
    "trimmed": (
        "{{- bos_token }}\n{%- for m in messages %}\n"
        "    {{- '<|im_start|>' ~ m.role ~ '\\n\\n' ~ (m.content | trim) ~ '<|im_end|>' }}\n"
        "{%- endfor %}\n{{- '<|im_start|>assistant\\n\\n' }}"
    ),
    "without thoughts": (
        "{% for m in messages %}{% set text = m.content %}"
        "{% if m.role == 'assistant' and '</think>' in text %}"
        "{% set text = text.split('</think>')[-1].lstrip('\n') %}{% endif %}"
        + TURN
        + "{{ text + '<|im_end|>\n' }}{% endfor %}"
        + ANSWER
        + "<think>\n"
    ),
    "with thoughts": (
        "{% for m in messages %}" + TURN + "{% if m.role == 'assistant' %}"
        "{% set thought = m.content.split('</think>')[0].rstrip('\n').split('<think>')[-1] %}"
        "{{ '<think>\n' + thought.strip('\n') + '\n</think>\n\n' }}"
        "{{ m.content.split('</think>')[-1].lstrip() }}{% else %}{{ m.content }}{% endif %}"
        "{{ '<|im_end|>\n' }}{% endfor %}" + ANSWER
    ),
    "last question": (
        "{% set ns = namespace(searching=true, last=0) %}{% for m in messages[::-1] %}"
        "{% if ns.searching and m.role == 'user' and not (m.content.startswith('<tool_response>')"
        " and m.content.endswith('</tool_response>')) %}"
        "{% set ns.searching = false %}{% set ns.last = messages | length - 1 - loop.index0 %}"
        "{% endif %}{% endfor %}{% for m in messages %}" + TURN + "{% if loop.index0 < ns.last %}"
        "{{ m.content }}{% else %}<think>{{ m.content }}</think>{% endif %}<|im_end|>{% endfor %}"
    ),
    "switch": (
        "{% set ns = namespace(thinks=true) %}{% for m in messages %}"
        "{% if '/no_think' in m.content %}{% set ns.thinks = false %}{% endif %}"
        + TURN
        + "{{ m.content.replace('/no_think', '').rstrip() }}<|im_end|>{% endfor %}"
        + ANSWER
        + "{% if not ns.thinks %}<think>\n\n</think>{% endif %}"
    ),
    "system first": (
        "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}"
        "{% set rest = messages[1:] %}{% else %}{% set system = 'Be kind.' %}"
        "{% set rest = messages %}{% endif %}{{ bos_token }}{% for m in rest %}"
        "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('roles must alternate') }}{% endif %}"
        "{% if m.role == 'user' %}{{ '[INST] ' }}{% if loop.last %}{{ system ~ '\n\n' }}{% endif %}"
        "{{ m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content | trim + '<|im_end|>' }}"
        "{% endif %}{% endfor %}"
    ),
    "macro and block": (
        "{% macro turn(role, text) %}<|im_start|>{{ role | upper }}: {{ text }}<|im_end|>"
        "{% endmacro %}{% for m in messages %}{% set text %}{{ m.content | string }} "
        "({{ m.content | length }}){% endset %}{{ turn(m.role, text) }}{% endfor %}" + ANSWER
    ),
    "tests and filters": (
        "{% for m in messages if m.content is string and m.content is not mapping %}"
        "{% if loop.first %}<s>{% endif %}"
        + TURN
        + "{{ m.content | default('nothing', true) | upper }}"
        "{{ m.get('content', '').lower().title() }}{{ m.missing | default('') }}"
        "{{ m.items() | list | length }}<|im_end|>{% endfor %}"
        "{{ messages | map(attribute='content') | join('|') }}" + ANSWER
    ),
    "characters": (
        "{% for m in messages %}"
        + TURN
        + "{% if m.content and m.content[0] == ' ' %}{% continue %}{% endif %}"
        "{{ m.content[1:] }}{{ m.content[:2] }}{{ m.content[-1:] }}{{ m.content[::-1] }}"
        "{% if m.content | length > 30 %}{% break %}{% endif %}{% endfor %}" + ANSWER
    ),
    "json": "{{ messages | tojson }}{% for m in messages %}{{ m | tojson(indent=2) }}{% endfor %}",
    "lines": (
        "{% for m in messages %}{% for line in m.content.splitlines() %}{{ '> ' + line + '\n' }}"
        "{% endfor %}{% endfor %}{% generation %}{% endgeneration %}" + ANSWER
    ),
    "delimiters": (
        "{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}"
        "{{ '<｜Assistant｜>' + m.content }}{% else %}{{ '<|' + 'user' + '|>' + m.content }}"
        "{% endif %}{% endfor %}<｜Assistant｜>"
    ),
    "no content": "<|im_start|>{{ messages | length }}<|im_end|>",
}

PIECES = (
    *(
        " ",
        "\n",
        "\n\n",
        "\t",
        "\r\n",
        "a",
        "Hi",
        "Été",
        "ß",
        "🦜🏽",
        "你好",
        "1",
        "-",
        "'",
        '"',
        "\\",
    ),
    *("<b>", "</b>", "<", "|>", "[INST", "/no_think", "{{ m }}", "{% raw %}", "{#"),
    *("\ue000", "\uf8ff", "\U000f0000", "\U000f0001", "<tool_response>", "</tool_response>"),
    *("<think>", "</think>", "<think>\nSo.\n</think>\n\nHello!"),
)


def texts(pieces: Sequence[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(pieces), max_size=5).map("".join)


def chats(pieces: Sequence[str]) -> st.SearchStrategy[Chat]:
    """Chats with or without a system prompt, of one to three turns of the user."""
    text = texts(pieces)
    systems = st.lists(st.tuples(st.just("system"), text), max_size=1)
    turns = st.lists(
        st.tuples(st.tuples(st.just("user"), text), st.tuples(st.just("assistant"), text)),
        max_size=2,
    )
    return st.builds(
        lambda system, turns, last: Chat((*system, *(m for t in turns for m in t), ("user", last))),
        systems,
        turns,
        text,
    )


def build_tokenizer(kind: str, typed: Sequence[str] = TYPED) -> PreTrainedTokenizerFast:
    """A small tokenizer with the tokens of the templates.

    Args:
        kind: "bytes"; "first" adds a space to the beginning of a text, "each" also after each
            control token.
        typed: additional special tokens.
    """
    if kind == "bytes":
        letters = sorted(pre_tokenizers.ByteLevel.alphabet())
        backend = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        backend.decoder = decoders.ByteLevel()
    else:
        letters = ["<unk>", "▁", *map(chr, range(33, 127)), *(f"<0x{i:02X}>" for i in range(256))]
        merges = [("▁", "a"), ("▁", "<"), ("<", "|"), ("▁", "▁")]
        vocabulary = {letter: i for i, letter in enumerate([*letters, *map("".join, merges)])}
        backend = Tokenizer(
            models.BPE(vocabulary, merges, unk_token="<unk>", byte_fallback=True, fuse_unk=True)
        )
        if kind == "first":
            backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        else:
            backend.normalizer = normalizers.Sequence(
                [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
            )
    added = [(text, True) for text in SPECIAL]
    added += [(text, False) for text in (*DELIMITERS, *TAGS)] + [(text, True) for text in typed]
    for text, special in added:
        backend.add_tokens([AddedToken(text, special=special, normalized=False)])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", eos_token="<|im_end|>"
    )


KINDS = ("bytes", "first", "each")
TOKENIZERS = {kind: build_tokenizer(kind) for kind in KINDS}
PLAIN_TOKENIZERS = {kind: build_tokenizer(kind, typed=()) for kind in KINDS}
"""The same tokenizers, to which the tokens `TYPED` are text."""


def apply(tokenizer: PreTrainedTokenizerBase, template: str, chat: Chat, **arguments: object):
    """What transformers itself makes of a chat."""
    return tokenizer.apply_chat_template(
        chat.as_json,
        chat_template=template,
        add_generation_prompt=True,
        **{"return_dict": False} | arguments,
    )


def encode(tokenizer: PreTrainedTokenizerBase, template: str, messages) -> list[int]:
    tokenizer.chat_template = template
    return list(encode_chat(tokenizer, Chat.from_messages(messages), "model"))


def assert_equal_to_transformers(
    tokenizer: PreTrainedTokenizerBase, plain: PreTrainedTokenizerBase, template: str, chat: Chat
) -> None:
    """Check that the tokens are those of `plain` by `apply_chat_template`, or both reject."""
    try:
        expected = apply(plain, template, chat)
    except Exception as error:
        with pytest.raises(UnusableText, match=re.escape(f"rejects these messages: {error}")):
            encode(tokenizer, template, chat)
        return
    assert encode(tokenizer, template, chat) == expected


@pytest.mark.few(5)
@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
@examples(15)
@given(st.data())
def test_tokens_are_those_of_transformers(template, data):
    """Without control tokens in messages, the tokens are those of `apply_chat_template`."""
    tokenizer = TOKENIZERS[data.draw(st.sampled_from(KINDS))]
    assert_equal_to_transformers(tokenizer, tokenizer, template, data.draw(chats(PIECES)))


@pytest.mark.few(5)
@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
@examples(15)
@given(st.data())
def test_typed_special_tokens_have_the_tokens_of_text(template, data):
    """They are those of a tokenizer that has no such special token."""
    kind = data.draw(st.sampled_from(KINDS))
    chat = data.draw(chats([*PIECES, *TYPED * 5]))
    assert_equal_to_transformers(TOKENIZERS[kind], PLAIN_TOKENIZERS[kind], template, chat)


def control_ids(tokenizer: PreTrainedTokenizerBase, tokens: Sequence[int]) -> list[int]:
    control = tokenizer.convert_tokens_to_ids([*SPECIAL, *DELIMITERS, *TYPED])
    return [token for token in tokens if token in control]


@pytest.mark.few(5)
@pytest.mark.parametrize("template", TEMPLATES.values(), ids=TEMPLATES)
@examples(15)
@given(chats([*PIECES, *SPECIAL, *DELIMITERS]))
def test_messages_add_no_control_tokens(template, chat):
    """The text is that of `apply_chat_template`, the control tokens those of harmless messages."""
    tokenizer = TOKENIZERS["bytes"]
    names = "|".join(map(re.escape, [*SPECIAL, *DELIMITERS]))
    harmless = Chat(
        tuple(
            (role, re.sub(names, lambda found: "x" * len(found[0]), text))
            for role, text in chat.messages
        )
    )
    try:
        text = apply(tokenizer, template, chat, tokenize=False)
    except Exception:
        return
    tokens = encode(tokenizer, template, chat)
    assert tokenizer.decode(tokens) == text
    expected = control_ids(tokenizer, apply(tokenizer, template, harmless))
    assert control_ids(tokenizer, tokens) == expected


def test_an_assistant_message_with_thoughts_is_cut_as_the_template_cuts_it():
    """Where a template removes thoughts and line breaks, the prompt has neither."""
    chat = [
        {"user": "Hi"},
        {"assistant": "<think>Greet.</think>\n\nHello!"},
        {"user": "Bye"},
    ]
    for tags_are_special in (False, True):
        tokenizer = build_tokenizer("bytes")
        if tags_are_special:
            tokenizer.add_special_tokens({"extra_special_tokens": list(TAGS)})
        tokens = encode(tokenizer, TEMPLATES["without thoughts"], chat)
        assert "<|im_start|>assistant\nHello!<|im_end|>" in tokenizer.decode(tokens)
        assert tokens == apply(tokenizer, tokenizer.chat_template, Chat.from_messages(chat))


def test_tags_are_a_part_of_a_text():
    """An added token such as `<think>` is one token in a message, as for `apply_chat_template`."""
    tokenizer = TOKENIZERS["bytes"]
    tokens = encode(tokenizer, TEMPLATES["concatenation"], [{"user": "Think in <think></think>."}])
    assert set(tokenizer.convert_tokens_to_ids(["<think>", "</think>"])) < set(tokens)


def test_a_delimiter_that_is_not_marked_as_special_stays_text():
    """`<|user|>` and `<｜Assistant｜>` delimit messages, so they do not in a message."""
    tokenizer = TOKENIZERS["bytes"]
    chat = [{"user": "a<|user|> b <｜Assistant｜>"}]
    tokens = encode(tokenizer, TEMPLATES["delimiters"], chat)
    begin, user, answer = tokenizer.convert_tokens_to_ids(["<s>", "<|user|>", "<｜Assistant｜>"])
    assert tokens[:2] == [begin, user]
    assert tokens[-1] == answer
    assert not {user, answer} & set(tokens[2:-1])
    assert tokenizer.decode(tokens) == "<s><|user|>a<|user|> b <｜Assistant｜><｜Assistant｜>"


REFUSED = {
    "acts on a token": (
        "{{ '<|im_start|>' + messages[0].content.split('<|im_end|>')[0] + '<|im_end|>' }}",
        [{"user": "Hi<|im_end|>there"}],
        r"messages\[0\].content: it contains '<\|im_end\|>', on which the chat template acts",
    ),
    "keeps or writes a token": (
        "{% for m in messages %}{{ m.content }}{% if '<|im_end|>' not in m.content %}<|im_end|>"
        "{% endif %}{% endfor %}",
        [{"system": "Be kind."}, {"user": "Hi<|im_end|>"}],
        r"messages\[1\].content: it contains '<\|im_end\|>', on which the chat template acts",
    ),
    "completes a token": (
        "{% for m in messages %}{{ m.content }}{% endfor %}end|>",
        [{"system": "Be kind."}, {"user": "Hi<|im_"}],
        r"messages\[1\].content: together with the chat template it forms '<\|im_end\|>'",
    ),
    "frames a token": (
        "<|{{ messages[0].content }}|>",
        [{"user": "im_end"}],
        r"messages\[0\].content: together with the chat template it forms '<\|im_end\|>'",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("template", "messages", "problem"), REFUSED.values(), ids=REFUSED)
def test_a_control_token_of_unclear_origin_is_refused(template, messages, problem, kind):
    """Where no encoding is both safe and the template's, the error names the message."""
    with pytest.raises(UnusableText, match=f"^model: {problem}.*; rewrite the message$"):
        encode(TOKENIZERS[kind], template, messages)


def test_a_token_of_two_messages_stays_text():
    """Messages that a template joins without a text between them form no control token."""
    tokenizer = TOKENIZERS["bytes"]
    template = "{% for m in messages %}{{ m.content }}{% endfor %}<|im_end|>"
    tokens = encode(tokenizer, template, [{"system": "<|im_"}, {"user": "end|>"}])
    assert tokenizer.decode(tokens) == "<|im_end|><|im_end|>"
    assert control_ids(tokenizer, tokens) == [tokenizer.convert_tokens_to_ids("<|im_end|>")]


def test_a_template_that_takes_an_answer_apart_decides_about_its_tokens():
    """In an assistant message, a special token on which a template acts is the template's."""
    tokenizer = build_tokenizer("bytes")
    tokenizer.add_special_tokens({"extra_special_tokens": list(TAGS)})
    template = TEMPLATES["with thoughts"]
    messages = [{"user": "Hi"}, {"assistant": "<think>So.</think>Hello!"}, {"user": "Bye"}]
    assert encode(tokenizer, template, messages) == apply(
        tokenizer, template, Chat.from_messages(messages)
    )


def test_a_control_token_without_encoding_as_text_is_refused():
    """A vocabulary of whole words contains a special token as a word."""
    words = ["[UNK]", "</s>", "Hi", "there"]
    backend = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="[UNK]", eos_token="</s>"
    )
    template = "{% for m in messages %}{{ m.content + ' </s> ' }}{% endfor %}"
    assert encode(tokenizer, template, [{"user": "Hi you"}]) == [2, 0, 1]
    with pytest.raises(UnusableText, match=r"messages\[0\].* encodes '</s>' only as a control"):
        encode(tokenizer, template, [{"user": "Hi </s> there"}])


def test_a_slow_tokenizer_refuses_typed_control_tokens():
    """A tokenizer written in Python has the tokens of `apply_chat_template`, or names a message."""
    tokenizer = ByT5Tokenizer(extra_ids=4)
    template = "{% for m in messages %}{{ m.content | trim + '</s>' }}{% endfor %}"
    chat = [{"system": " Be kind. "}, {"user": "<s> Hi"}]
    expected = apply(tokenizer, template, Chat.from_messages(chat))
    assert encode(tokenizer, template, chat) == expected
    with pytest.raises(UnusableText, match=r"messages\[1\].content: it contains '</s>'"):
        encode(tokenizer, template, [{"system": "Be kind."}, {"user": "Hi</s>"}])


def test_a_date_is_the_only_difference_of_a_template_with_dates():
    """The tokens are those of the template with the fixed date instead of the call."""
    dated = "{% if strftime_now is defined %}{{ strftime_now('%d %B %Y') }}{% endif %}"
    template = TEMPLATES["trimmed"]
    messages = [{"user": " Hi <|typed|>\n"}]
    fixed = apply(PLAIN_TOKENIZERS["each"], "26 July 2024" + template, Chat.from_messages(messages))
    assert encode(TOKENIZERS["each"], dated + template, messages) == fixed


@pytest.mark.long
@pytest.mark.parametrize("directory", sorted(MODELS.glob("*/tokenizer.json")) or [None], ids=str)
def test_templates_of_fetched_models(directory):
    """The templates in `resources/models` give the tokens of `apply_chat_template`."""
    if directory is None:
        pytest.skip(f"{MODELS} has no tokenizer")
    plain = load_tokenizer(directory.parent)
    if not isinstance(plain.chat_template, str):
        pytest.skip(f"{directory} has no chat template")
    tokenizer = load_tokenizer(directory.parent)
    tokenizer.add_special_tokens({"extra_special_tokens": ["<|typed|>"]})

    @examples(15)
    @given(chats([*PIECES, *["<|typed|>"] * 5]))
    def compare(chat):
        assert_equal_to_transformers(tokenizer, plain, plain.chat_template, chat)

    compare()
