"""Chat templates in the formats of published ones, written for tests."""

_BEGIN = (
    "{% if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}"
    "<|im_end|>\n{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content or '' }}{% if m.tool_calls %}"
)
_END = (
    "{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_EACH = "{% for c in m.tool_calls %}{% set f = c.function %}"


def build_template(calls: str) -> str:
    """Build a template of turns from the program that writes calls."""
    return f"{_BEGIN}{calls}{_END}"


def _write_each(call: str) -> str:
    return f"{_EACH}{call}{{% endfor %}}"


def _write_json(begin: str, end: str, *, key: str = "arguments") -> str:
    return _write_each(
        f'{begin}{{"name": "{{{{ f.name }}}}", "{key}": {{{{ f.arguments | tojson }}}}}}{end}'
    )


def _write_list(begin: str, end: str) -> str:
    return (
        f"{begin}[{_EACH}"
        '{"name": "{{ f.name }}", "arguments": {{ f.arguments | tojson }}}'
        f"{{% if not loop.last %}}, {{% endif %}}{{% endfor %}}]{end}"
    )


def _write_tags(begin: str, end: str, head: str, argument: str, tail: str, value: str) -> str:
    arguments = "{% for k, v in f.arguments.items() %}" + argument.replace("VALUE", value)
    return _write_each(f"{begin}{head}{arguments}{{% endfor %}}{tail}{end}")


_TEXT_OR_JSON = "{{ v if v is string else v | tojson }}"
_TEXT_OR_PYTHON = "{{ v | tojson if v is mapping or v is sequence and v is not string else v }}"
_XML = ("<function={{ f.name }}>\n", "<parameter={{ k }}>\nVALUE\n</parameter>\n", "</function>\n")
_GEMMA_VALUES = (
    "{% macro value(v) %}{% if v is string %}QUOTE{{ v }}QUOTE{% elif v is mapping %}"
    "{ {%- for k, w in v.items() %}{{ k }}:{{ value(w) }}{% if not loop.last %},{% endif %}"
    "{% endfor %}}{% elif v is sequence %}[{% for w in v %}{{ value(w) }}"
    "{% if not loop.last %},{% endif %}{% endfor %}]{% else %}{{ v | tojson }}{% endif %}"
    "{% endmacro %}"
)


def _write_gemma(begin: str, end: str, quote: str) -> str:
    return _GEMMA_VALUES.replace("QUOTE", quote) + _write_each(
        f"{begin}call:{{{{ f.name }}}}{{{{ value(f.arguments) }}}}{end}"
    )


CALL_WRITERS = {
    "Hermes, Qwen": _write_json("<tool_call>\n", "\n</tool_call>\n"),
    "Qwen3-Coder, Nemotron 3": _write_tags("<tool_call>\n", "</tool_call>", *_XML, _TEXT_OR_PYTHON),
    "GLM": _write_tags(
        "<tool_call>",
        "</tool_call>",
        "{{ f.name }}\n",
        "<arg_key>{{ k }}</arg_key>\n<arg_value>VALUE</arg_value>\n",
        "",
        _TEXT_OR_JSON,
    ),
    "Seed-OSS": _write_tags(
        "<seed:tool_call>\n",
        "</seed:tool_call>",
        "<function={{ f.name }}>\n",
        "<parameter={{ k }}>VALUE</parameter>\n",
        "</function>\n",
        _TEXT_OR_PYTHON,
    ),
    "MiniMax-M2": "<minimax:tool_call>\n"
    + _write_tags(
        "",
        "",
        '<invoke name="{{ f.name }}">\n',
        '<parameter name="{{ k }}">VALUE</parameter>\n',
        "</invoke>\n",
        _TEXT_OR_JSON,
    )
    + "</minimax:tool_call>",
    "DeepSeek-V3.2": "<｜DSML｜function_calls>\n"
    + _write_tags(
        "",
        "",
        '<｜DSML｜invoke name="{{ f.name }}">\n',
        '<｜DSML｜parameter name="{{ k }}" string="{{ (v is string) | tojson }}">VALUE'
        "</｜DSML｜parameter>\n",
        "</｜DSML｜invoke>\n",
        _TEXT_OR_JSON,
    )
    + "</｜DSML｜function_calls>",
    "Mistral": _write_list("[TOOL_CALLS]", ""),
    "Mistral Small 3.2, Devstral": _write_each(
        "[TOOL_CALLS]{{ f.name }}[CALL_ID]{{ c.id }}[ARGS]{{ f.arguments | tojson }}"
    ),
    "Kimi-K2": "<|tool_calls_section_begin|>"
    + _write_each(
        "<|tool_call_begin|>functions.{{ f.name }}:{{ loop.index0 }}<|tool_call_argument_begin|>"
        "{{ f.arguments | tojson }}<|tool_call_end|>"
    )
    + "<|tool_calls_section_end|>",
    "DeepSeek-V3, R1": "<｜tool▁calls▁begin｜>"
    + _write_each(
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{{ f.name }}\n```json\n"
        "{{ f.arguments | tojson }}\n```<｜tool▁call▁end｜>"
    )
    + "<｜tool▁calls▁end｜>",
    "DeepSeek-V3.1": "<｜tool▁calls▁begin｜>"
    + _write_each(
        "<｜tool▁call▁begin｜>{{ f.name }}<｜tool▁sep｜>{{ f.arguments | tojson }}"
        "<｜tool▁call▁end｜>"
    )
    + "<｜tool▁calls▁end｜>",
    "Gemma 4": _write_gemma("<|tool_call>", "<tool_call|>", '<|"|>'),
    "FunctionGemma": _write_gemma("<start_function_call>", "<end_function_call>", "<escape>"),
    "LFM2": "<|tool_call_start|>[{% for c in m.tool_calls %}{% set f = c.function %}{{ f.name }}("
    "{% for k, v in f.arguments.items() %}{{ k }}={{ v | tojson }}"
    "{% if not loop.last %}, {% endif %}{% endfor %})"
    "{% if not loop.last %}, {% endif %}{% endfor %}]<|tool_call_end|>",
    "gpt-oss": _write_each(
        "{% if not loop.first %}<|start|>assistant{% endif %}<|channel|>commentary "
        "to=functions.{{ f.name }} <|constrain|>json<|message|>{{ f.arguments | tojson }}<|call|>"
    ),
    "Granite 3, Phi-4-mini": _write_list("<|tool_call|>", "<|/tool_call|>"),
    "Apriel": _write_list("\n<tool_calls>", "</tool_calls>"),
    "Command R7B": _write_list("<|START_ACTION|>", "<|END_ACTION|>"),
    "InternLM 2": _write_json("<|action_start|><|plugin|>\n", "<|action_end|>"),
    "GigaChat 3.1": _write_json("<|function_call|>", ""),
    "GigaChat 3": _write_json("<|message_sep|>\n\nfunction call<|role_sep|>\n", "<|message_sep|>"),
    "Nemotron Nano 2": _write_list("<TOOLCALL>", "</TOOLCALL>"),
    "Phi-4-mini, functools": _write_list("functools", ""),
    "Apertus": "<|tools_prefix|>[{% for c in m.tool_calls %}{ {{- c.function.name | tojson }}: "
    "{{ c.function.arguments | tojson }}}{% if not loop.last %}, {% endif %}{% endfor %}]"
    "<|tools_suffix|>",
    "Functionary 3.1": _write_each("<function={{ f.name }}>{{ f.arguments | tojson }}</function>"),
    "Llama 3": _write_json("", "", key="parameters"),
}
"""The programs that write calls in each format, by the name of the format."""
