"""Calls of tools of whole models: read in the model's own format, also where marks are special."""

import pytest
from helpers.call_templates import CALL_WRITERS, build_template
from helpers.scripted_models import build_scripted_model

import llmchecker as lc
from llmchecker.config.prompt import parse_prompt
from llmchecker.errors import LLMCheckerError
from llmchecker.models.decoding.chat_template import Chat

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT = parse_prompt(
    {
        "messages": [{"user": "Is it warm?"}],
        "tools": [{"name": "weather", "parameters": SCHEMA}],
    }
)
MISTRAL = {
    "<|go|>": {"[TOOL_CALLS]": 0.75, "No.": 0.25},
    "[TOOL_CALLS]": {"weather": 1.0},
    "weather": {"[ARGS]": 1.0},
    "[ARGS]": {'{"city": "Ulm"}': 0.5, '{"city": 3}': 0.5},
}
QWEN_CODER = {
    "<|go|>": {"<tool_call>\n<function=weather>": 0.75, "No.": 0.25},
    "<tool_call>\n<function=weather>": {"\n<parameter=city>\n": 0.5, "\n</function>": 0.5},
    "\n<parameter=city>\n": {"Ulm": 1.0},
    "Ulm": {"\n</parameter>": 1.0},
    "\n</parameter>": {"\n</function> ": 1.0},
    "\n</function>": {"</tool_call>": 1.0},
    "\n</function> ": {"</tool_call>": 1.0},
}
GEMMA = {
    "<|go|>": {"<|tool_call>": 0.75, "No.": 0.25},
    "<|tool_call>": {"call:weather{city:": 1.0},
    "call:weather{city:": {'<|"|>': 0.5, "3": 0.5},
    '<|"|>': {"Ulm": 1.0},
    "Ulm": {'<|"|>}': 1.0},
    '<|"|>}': {"<tool_call|>": 1.0},
    "3": {"}": 1.0},
    "}": {"<tool_call|>": 1.0},
}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "chain", "special"),
    [
        ("Mistral Small 3.2, Devstral", MISTRAL, ["<|go|>", "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"]),
        ("Qwen3-Coder, Nemotron 3", QWEN_CODER, ["<|go|>"]),
        ("Gemma 4", GEMMA, ["<|go|>", "<|tool_call>", "<tool_call|>", '<|"|>']),
    ],
)
def test_calls_of_a_model_have_their_exact_probabilities(name, chain, special):
    """Valid, invalid and no calls are those of the chain, and special tokens are no obstacle."""
    template = (
        build_template(CALL_WRITERS[name]) + "{% if add_generation_prompt %}<|go|>{% endif %}"
    )
    model = lc.load(*build_scripted_model(chain, template, special))
    calls = lc.ToolCalls({"weather": SCHEMA})
    for score, probability in ((2, 0.375), (1, 0.375), (0, 0.25)):
        query = f"P=? [ F (G calls = {score}) ]"
        answer = lc.ask(query, model, CHAT, length=8, certain=True, calls=calls)
        assert answer.lower == pytest.approx(probability, abs=1e-6)
        assert answer.upper == pytest.approx(probability, abs=1e-6)


def test_a_model_with_unknown_calls_is_refused():
    """No answer counts calls that the program could not read."""
    template = build_template("<do>{{ m.tool_calls[0].function.name }}</do>")
    model = lc.load(*build_scripted_model({"<|go|>": {"No.": 1.0}}, template))
    calls = lc.ToolCalls({"weather": SCHEMA})
    with pytest.raises(LLMCheckerError, match="writes calls in an unknown form: <do>weather</do>"):
        lc.ask("P=? [ F calls = 0 ]", model, CHAT, length=2, calls=calls)
    # without tools in the template, the messages alone may describe calls
    chat = Chat(CHAT.messages)
    answer = lc.ask("P=? [ F calls = 0 ]", model, chat, length=2, certain=True, calls=calls)
    assert answer.lower == 1


def test_a_call_in_a_message_of_the_model_has_its_control_tokens():
    """Marks are special tokens in messages of the model, and text in all others."""
    template = build_template(CALL_WRITERS["Mistral Small 3.2, Devstral"])
    special = ["[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"]
    network, tokenizer = build_scripted_model({"No.": {"No.": 1.0}}, template, special)
    model = lc.load(network, tokenizer)
    call = '[TOOL_CALLS]weather[ARGS]{"city": "Ulm"}'
    messages = [*CHAT.messages, ("assistant", call), ("tool", "[ARGS]21")]
    tokens = model.encode(Chat(tuple(messages), CHAT.tools))
    marks = [token for token in tokens if token in tokenizer.convert_tokens_to_ids(special)]
    assert tokenizer.convert_ids_to_tokens(marks) == ["[TOOL_CALLS]", "[ARGS]"]
    assert call in model.decode([tokens])[0]
