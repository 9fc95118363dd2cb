"""Settings of chat templates reach the template, and one that it does not read is refused."""

from datetime import date

import pytest
from helpers.chat_tokenizers import build_tokenizer
from helpers.scripted_models import build_scripted_model

import llmchecker as lc
from llmchecker.errors import ConfigError, UnusableText
from llmchecker.models.decoding.chat_template import Chat, encode_chat, find_prompt_date
from llmchecker.models.decoding.template_format import read_answer_format
from llmchecker.models.decoding.template_settings import NO_SETTINGS, TemplateSettings

CHAT = Chat((("user", "Is it warm?"),))
TEMPLATE = (
    "{% if messages[0].role != 'system' %}It is {{ strftime_now('%d %B %Y') }}.{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% else %}<think>\n{% endif %}{% endif %}{% if effort %}{{ effort }}{% endif %}"
)


def render(settings, chat=CHAT) -> str:
    tokenizer = build_tokenizer(TEMPLATE)
    parsed = TemplateSettings.parse(settings)
    return tokenizer.decode(encode_chat(tokenizer, chat, "model", parsed))


def test_settings_are_variables_of_the_template():
    """The prompt is that of transformers with the same variables, and the given date."""
    tokenizer = build_tokenizer(TEMPLATE.replace("{{ strftime_now('%d %B %Y') }}", "28 May 2026"))
    for variables in ({"enable_thinking": False}, {"enable_thinking": True}, {"effort": "low"}):
        expected = tokenizer.apply_chat_template(
            CHAT.as_json, add_generation_prompt=True, tokenize=False, **variables
        )
        assert render({**variables, "date": "2026-05-28"}) == expected
    assert render({}).startswith("It is 26 July 2024.")


def test_the_date_is_a_note_and_also_that_of_a_variable():
    """`date` is the date of calls, and of the variable that Llama's templates have."""
    settings = TemplateSettings.parse({"date": date(2026, 11, 28)})
    tokenizer = build_tokenizer(TEMPLATE)
    assert find_prompt_date(tokenizer, CHAT, "model", settings) == "28 November 2026"
    llama = build_tokenizer(
        "{% if not date_string is defined %}{% set date_string = '26 Jul 2024' %}{% endif %}"
        "{{ date_string }}: {{ messages[0].content }}"
    )
    text = llama.decode(encode_chat(llama, CHAT, "model", settings))
    assert text == "28 Nov 2026: Is it warm?"
    assert find_prompt_date(llama, CHAT, "model", settings) == "28 Nov 2026"


def test_settings_decide_whether_a_thought_is_open():
    """The format of answers is that of the prompt with the same settings."""
    tokenizer = build_tokenizer(TEMPLATE)
    for value in (True, False):
        settings = TemplateSettings.parse({"enable_thinking": value})
        thought = read_answer_format(tokenizer, CHAT, "model", settings).thought
        assert thought is not None
        assert thought.is_open == value


@pytest.mark.parametrize(
    "settings", [{"enable_thoughts": False}, {"tone": "kind"}, {"depth": 3}, {"names": ["a"]}]
)
def test_a_setting_that_the_template_does_not_read_is_refused(settings):
    """A misspelt setting would have no effect, whatever its value is."""
    (name,) = settings
    with pytest.raises(UnusableText, match=f"template.{name}: the chat template of model does not"):
        render(settings)


def test_a_setting_may_matter_in_other_chats():
    """A date that only chats without a system prompt have is no error in the others."""
    chat = Chat((("system", "Answer."), *CHAT.messages))
    assert "2026" not in render({"date": "2026-11-28"}, chat)
    tokenizer = build_tokenizer("{{ messages[-1].content }}")
    settings = TemplateSettings.parse({"date": "2026-11-28"})
    with pytest.raises(UnusableText, match="date: the chat template of model does not read it"):
        encode_chat(tokenizer, CHAT, "model", settings)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"date": "today"}, "date: 'today' is no date"),
        ({"tools": []}, "tools: the program sets it itself"),
        ({"x": "False"}, 'x: "False" is a text, which a template reads as true; write false'),
        ({"a b": 1}, "'a b': it is no name"),
        ({"value": {1}}, "no JSON"),
        ("off", "'off' is no mapping"),
    ],
)
def test_invalid_settings_are_refused(settings, words):
    """The message names the setting."""
    with pytest.raises(ConfigError, match=words):
        TemplateSettings.parse(settings)
    assert not NO_SETTINGS


def test_a_model_reads_prompts_with_its_settings():
    """`load` gives the settings to the template, and an answer says which date its prompt has."""
    chain = {"<think>\n": {"Yes.": 1.0}, "<think>\n\n</think>\n\n": {"No.": 1.0}}
    network, tokenizer = build_scripted_model(chain, TEMPLATE)
    query = "P=? [ F says = 1 ]"
    answers = {}
    for value in (True, False):
        settings = {"enable_thinking": value, "date": "2026-11-28"}
        model = lc.load(network, tokenizer, template=settings)
        answers[value] = lc.ask(query, model, CHAT, length=2, certain=True, says=lc.Pattern("No"))
    assert (answers[True].lower, answers[False].lower) == (0, 1)
    assert any("28 November 2026" in note for note in answers[True].notes)
    with pytest.raises(ConfigError, match="template: date"):
        lc.load(network, tokenizer, template={"date": "never"})
