"""APIs of models that return texts alone: requests for one answer, and the responses.

Each API asks for a sample of the whole distribution, unless a decoding says otherwise. Providers
reject unknown settings, so a request has no others.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from llmchecker.errors import ConfigError, RefusedPart, RequestRefused, SourceUnavailable
from llmchecker.models.decoding.chat_template import Start
from llmchecker.models.decoding.settings import (
    AS_PUBLISHED,
    END_SETTINGS,
    GRAMMAR_SETTINGS,
    Decoding,
    DecodingChoice,
)
from llmchecker.models.servers.http_client import ServerSession
from llmchecker.models.servers.schema import (
    AnthropicResponse,
    ChatLogprobs,
    ChatResponse,
    CompletionResponse,
    ModelList,
    OllamaModels,
    OllamaResponse,
    choose_model,
    join_parts,
    parse_response,
)
from llmchecker.models.servers.settings import ApiName
from llmchecker.models.servers.tool_messages import (
    describe_anthropic_tools,
    describe_openai_tools,
    list_anthropic_messages,
    list_ollama_messages,
    list_openai_messages,
    write_calls,
)
from llmchecker.models.text_answer import Finish, ListedToken, TextAnswer
from llmchecker.utils.printable_text import quote_value

_PROGRAM_SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "vllm": {
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    },
    # without penalties, and the temperature before top-p as elsewhere
    "llamacpp": {"samplers": ["temperature", "top_p"]},
}
"""Settings without further truncation or penalties, by the `owned_by` of a listed model.

These programs truncate or penalise by default: llama.cpp always, vLLM as the model's
`generation_config.json` says. OpenAI's API rejects the settings, so that no other server gets them.
"""

_PENALTIES = {"frequency_penalty", "presence_penalty"}
"""Settings that llama.cpp applies in a sampler of their own."""

_FINISHES: Mapping[str, Finish] = {
    # OpenAI, and Ollama the first and the third
    "stop": Finish.ENDED,
    "tool_calls": Finish.CALLED,
    "length": Finish.TRUNCATED,
    "function_call": Finish.CALLED,
    "content_filter": Finish.FILTERED,
    # Anthropic
    "end_turn": Finish.ENDED,
    "stop_sequence": Finish.ENDED,
    "max_tokens": Finish.TRUNCATED,
    "model_context_window_exceeded": Finish.TRUNCATED,
    "tool_use": Finish.CALLED,
    "refusal": Finish.FILTERED,
    # other servers, and gateways to Gemini
    "eos": Finish.ENDED,
    "eos_token": Finish.ENDED,
    **dict.fromkeys(
        ("safety", "recitation", "blocklist", "prohibited_content", "spii"), Finish.FILTERED
    ),
    **dict.fromkeys(("malformed_function_call", "unexpected_tool_call"), Finish.CALLED),
}
"""The ends of answers by the providers' reasons in lower case.

Others, such as `error` and Anthropic's `pause_turn`, are of answers that are not whole.
"""

_Response = TypeVar("_Response")


@dataclass(frozen=True)
class TextRequest:
    """A request for one answer.

    Attributes:
        prompt: a text to continue, or messages to answer.
        max_tokens: largest number of tokens of the answer.
        seed: seed of the answer, which some providers ignore.
        decoding: the choice of the next token.
        program: as in `ListedModel`.
        template: variables of the server's chat template.
        stop: texts before which the answer ends.
        top_logprobs: number of listed tokens at each token; 0 for no log probabilities.
    """

    prompt: Start
    max_tokens: int
    seed: int
    decoding: DecodingChoice = None
    program: str = ""
    template: Mapping[str, Any] = field(default_factory=dict)
    stop: tuple[str, ...] = ()
    top_logprobs: int = 0

    def build_stop(self, name: str) -> dict[str, list[str]]:
        """Return the setting of stops by its name; none without stops."""
        return {name: list(self.stop)} if self.stop else {}


@dataclass(frozen=True)
class ListedModel:
    """A model of a provider.

    Attributes:
        name: the provider's name of the model.
        program: the server's program, the `owned_by` of the model; empty if it is unknown.
    """

    name: str
    program: str = ""


class TextApi(ABC, Generic[_Response]):
    """An API of a provider.

    Attributes:
        path: the path of requests.
        shape: the schema of responses.
    """

    path: str
    shape: type[_Response]

    @abstractmethod
    def build_payload(self, model: str, request: TextRequest) -> dict[str, Any]:
        """Return the JSON body of a request."""

    @abstractmethod
    def read_answer(
        self, response: _Response, max_tokens: int, *, reads_calls: bool = False
    ) -> TextAnswer:
        """Return the first answer of a response; its text is empty without one.

        Args:
            response: the response.
            max_tokens: largest number of tokens of the answer.
            reads_calls: whether calls of tools are a part of the text. Otherwise the request has no
                tools, and calls are those of the provider's own.
        """

    async def find_model(self, session: ServerSession, name: str | None) -> ListedModel:
        """Find a model at the provider, before an answer costs anything.

        Raises:
            RequestRefused: the provider refuses the key.
            ConfigError: it does not have the model.
        """
        try:
            entries = (await session.request(ModelList, "/v1/models")).data
        except RequestRefused as error:
            # many gateways list no models
            if name is not None and RefusedPart.PATH in error.parts:
                return ListedModel(name)
            raise
        # Gemini lists `models/NAME`, and answers as NAME
        owners = {entry.id.removeprefix("models/"): entry.owned_by or "" for entry in entries}
        name = choose_model(session.address, name, owners)
        return ListedModel(name, owners[name])


class _OpenAiCompletions(TextApi[CompletionResponse]):
    """OpenAI's `/v1/completions`, which continues a text."""

    path = "/v1/completions"
    shape = CompletionResponse

    def build_payload(self, model: str, request: TextRequest) -> dict[str, Any]:
        grammar = _build_grammar(request, is_chat=False)
        return _build_openai_payload(model, request) | {"prompt": request.prompt, **grammar}

    def read_answer(
        self, response: CompletionResponse, max_tokens: int, *, reads_calls: bool = False
    ) -> TextAnswer:
        texts: dict[int, tuple[str | None, list[Any], str | None, str]] = {
            each.index: (each.text, [], each.finish_reason, "") for each in response.choices
        }
        return _read_openai_answer(response, texts, max_tokens, reads_calls=reads_calls)


class _OpenAiChat(TextApi[ChatResponse]):
    """OpenAI's `/v1/chat/completions`, which most providers and gateways have."""

    path = "/v1/chat/completions"
    shape = ChatResponse

    def build_payload(self, model: str, request: TextRequest) -> dict[str, Any]:
        messages = list_openai_messages(request.prompt)
        tools = describe_openai_tools(request.prompt)
        grammar = _build_grammar(request, is_chat=True)
        # vLLM, SGLang and llama.cpp read the variables of templates
        template = {"chat_template_kwargs": dict(request.template)} if request.template else {}
        payload = _build_openai_payload(model, request)
        if request.top_logprobs:
            payload |= {"logprobs": True, "top_logprobs": request.top_logprobs}
        return payload | {"messages": messages} | tools | template | grammar

    def read_answer(
        self, response: ChatResponse, max_tokens: int, *, reads_calls: bool = False
    ) -> TextAnswer:
        """Return the first answer of a response; a refusal of the model is its answer."""
        texts = {
            each.index: (
                each.message.text,
                each.message.calls,
                each.finish_reason,
                each.message.thought,
            )
            for each in response.choices
        }
        answer = _read_openai_answer(response, texts, max_tokens, reads_calls=reads_calls)
        first = min(response.choices, key=lambda each: each.index, default=None)
        return answer if first is None else replace(answer, tokens=_read_tokens(first.logprobs))


class _Anthropic(TextApi[AnthropicResponse]):
    """Anthropic's `/v1/messages`."""

    path = "/v1/messages"
    shape = AnthropicResponse

    def build_payload(self, model: str, request: TextRequest) -> dict[str, Any]:
        messages = list_anthropic_messages(request.prompt)
        payload = {
            "model": model,
            "max_tokens": request.max_tokens,
            "messages": [each for each in messages if each["role"] != "system"],
            # the API has no seed, and its models refuse top_p next to a temperature
            **_build_sampling(request.decoding, {"temperature": 1.0}),
            **describe_anthropic_tools(request.prompt),
            **request.build_stop("stop_sequences"),
        }
        system = [each["content"] for each in messages if each["role"] == "system"]
        return payload | ({"system": system[0]} if system else {})

    def read_answer(
        self, response: AnthropicResponse, max_tokens: int, *, reads_calls: bool = False
    ) -> TextAnswer:
        """Return the answer of a response, whose thoughts are apart."""
        usage = response.usage
        answer_tokens = None if usage is None else usage.output_tokens
        finish = _find_finish(response.stop_reason, answer_tokens, max_tokens)
        thought = "".join(part.thought for part in response.content)
        text, finish = _read_text(
            join_parts(response.content),
            response.calls,
            finish,
            reads_calls=reads_calls,
            has_thought=bool(thought),
        )
        return TextAnswer(
            text=text,
            thought=thought,
            finish=finish,
            model=response.model,
            prompt_tokens=None if usage is None else usage.input_tokens,
            answer_tokens=answer_tokens,
        )

    async def find_model(self, session: ServerSession, name: str | None) -> ListedModel:
        """Find a model; the list leaves out names such as `…-latest`."""
        return await super().find_model(session, None) if name is None else ListedModel(name)


class _Ollama(TextApi[OllamaResponse]):
    """Ollama's `/api/chat`."""

    path = "/api/chat"
    shape = OllamaResponse

    def build_payload(self, model: str, request: TextRequest) -> dict[str, Any]:
        defaults = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
        sampling = _build_sampling(request.decoding, defaults)
        schema = list_grammar(request.decoding).get("json_schema")
        if request.decoding != AS_PUBLISHED:
            sampling["repeat_penalty"] = 1.0
        sampling |= request.build_stop("stop")
        return {
            "model": model,
            "messages": list_ollama_messages(request.prompt),
            **describe_openai_tools(request.prompt),
            "stream": False,
            "options": {"num_predict": request.max_tokens, "seed": request.seed, **sampling},
            **({} if schema is None else {"format": schema}),
        }

    def read_answer(
        self, response: OllamaResponse, max_tokens: int, *, reads_calls: bool = False
    ) -> TextAnswer:
        message, answer_tokens = response.message, response.eval_count
        # a response that is not done has a part of the answer
        finish = Finish.MISSING
        if response.done:
            finish = _find_finish(response.done_reason, answer_tokens, max_tokens)
        thought = message.thought
        text, finish = _read_text(
            message.text,
            message.calls,
            finish,
            reads_calls=reads_calls,
            has_thought=bool(thought),
        )
        return TextAnswer(
            text=text,
            thought=thought,
            finish=finish,
            model=response.model,
            prompt_tokens=response.prompt_eval_count,
            answer_tokens=answer_tokens,
        )

    async def find_model(self, session: ServerSession, name: str | None) -> ListedModel:
        """Find a pulled model, for which `llama3` stands for `llama3:latest`."""
        tags = await session.request(OllamaModels, "/api/tags")
        listed = [each.name for each in tags.models]
        if name is not None and f"{name}:latest" in listed:
            return ListedModel(name)
        return ListedModel(choose_model(session.address, name, listed))


TEXT_APIS: Mapping[ApiName, TextApi[Any]] = {
    "openai-chat": _OpenAiChat(),
    "openai-completions": _OpenAiCompletions(),
    "anthropic": _Anthropic(),
    "ollama": _Ollama(),
}
"""The APIs of models that return texts alone, by name."""


def _build_openai_payload(model: str, request: TextRequest) -> dict[str, Any]:
    is_published = request.decoding == AS_PUBLISHED
    program_settings = {} if is_published else dict(_PROGRAM_SETTINGS.get(request.program, {}))
    sampling = _build_sampling(request.decoding, {"temperature": 1.0, "top_p": 1.0})
    if "samplers" in program_settings and sampling.keys() & _PENALTIES:
        program_settings["samplers"] = ["penalties", *program_settings["samplers"]]
    return {
        "model": model,
        **program_settings,
        "seed": request.seed,
        **sampling,
        **request.build_stop("stop"),
        **_build_ends(request),
        "n": 1,
        "stream": False,
        "max_tokens": request.max_tokens,
    }


def _build_sampling(decoding: DecodingChoice, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a decoding but for its grammar and its end tokens.

    Those of the provider remain with `as_published`.
    """
    if decoding == AS_PUBLISHED:
        return {}
    if decoding is None:
        return dict(defaults)
    assert isinstance(decoding, Decoding)
    others = ("do_sample", *GRAMMAR_SETTINGS, *END_SETTINGS)
    settings = {name: value for name, value in decoding.settings.items() if name not in others}
    return (dict(defaults) if decoding.do_sample else {"temperature": 0.0}) | settings


def _build_ends(request: TextRequest) -> dict[str, Any]:
    """Return the part of a request to vLLM that names the tokens that end an answer.

    Raises:
        ConfigError: the server is another one, or a token has no id.
    """
    decoding = request.decoding
    given = decoding.settings if isinstance(decoding, Decoding) else {}
    name = next((name for name in END_SETTINGS if name in given), None)
    if name is None:
        return {}
    if request.program != "vllm":
        raise ConfigError(f"decoding: {name}: the server has no such setting; only vLLM has it")
    assert isinstance(decoding, Decoding)
    for token in decoding.end_tokens:
        if isinstance(token, str):
            raise ConfigError(
                f"decoding: end_tokens: {quote_value(token)} is a text; write the id of the token"
            )
    # the tokens take the place of the model's own, and their text, if any, is a part of the answer
    payload: dict[str, Any] = {"ignore_eos": True}
    if decoding.end_tokens:
        payload |= {"stop_token_ids": [*decoding.end_tokens], "include_stop_str_in_output": True}
    return payload


def list_grammar(decoding: DecodingChoice) -> dict[str, Any]:
    """Return the setting of a decoding with a grammar; the schema as JSON."""
    name = decoding.grammar_setting if isinstance(decoding, Decoding) else None
    if name is None:
        return {}
    assert isinstance(decoding, Decoding)
    value = decoding.settings[name]
    return {name: json.loads(value) if name == "json_schema" else value}


def _build_grammar(request: TextRequest, *, is_chat: bool) -> dict[str, Any]:
    """Return the part of a request to an API of OpenAI that names the texts of answers.

    Raises:
        ConfigError: the server has no such part.
    """
    for name, value in list_grammar(request.decoding).items():
        if request.program == "vllm":
            return {"structured_outputs": {name.removesuffix("_schema"): value}}
        if name == "json_schema" and is_chat:
            schema = {"name": "answer", "schema": value, "strict": True}
            return {"response_format": {"type": name, name: schema}}
        if name == "json_schema" and request.program == "llamacpp":
            return {name: value}
        has = "only vLLM has it" if name != "json_schema" else "use openai-chat"
        raise ConfigError(f"decoding: {name}: the server has no such setting; {has}")
    return {}


def _read_openai_answer(
    response: ChatResponse | CompletionResponse,
    texts: Mapping[int, tuple[str | None, list[Any], str | None, str]],
    max_tokens: int,
    *,
    reads_calls: bool,
) -> TextAnswer:
    """Return the first answer of a response.

    Args:
        response: the response.
        texts: the text, the calls of tools, the reason of its end and the thought, by the number
            of the answer.
        max_tokens, reads_calls: as in `TextApi.read_answer`.
    """
    # the first answer, whatever the others are, is a sample
    text, calls, reason, thought = texts.get(min(texts, default=0), (None, [], None, ""))
    usage = response.usage
    answer_tokens = None if usage is None else usage.completion_tokens
    finish = _find_finish(reason, answer_tokens, max_tokens)
    written, finish = _read_text(
        text, calls, finish, reads_calls=reads_calls, has_thought=bool(thought)
    )
    return TextAnswer(
        text=written,
        thought=thought,
        finish=finish,
        choice_count=len(response.choices),
        model=response.model,
        prompt_tokens=None if usage is None else usage.prompt_tokens,
        answer_tokens=answer_tokens,
    )


def _read_tokens(logprobs: Any) -> tuple[ListedToken, ...]:
    """Return the tokens of an answer; none where the log probabilities have another form."""
    if logprobs is None:
        return ()
    try:
        content = parse_response(ChatLogprobs, logprobs).content or []
    except SourceUnavailable:
        return ()
    return tuple(
        ListedToken(
            each.token,
            each.logprob,
            tuple((other.token, other.logprob) for other in each.top_logprobs),
        )
        for each in content
    )


def samples_all_tokens(decoding: DecodingChoice) -> bool:
    """Return whether a decoding samples at temperature 1 from all tokens."""
    defaults = {"temperature": 1.0, "top_p": 1.0}
    if decoding == AS_PUBLISHED or list_grammar(decoding):
        return False
    return _build_sampling(decoding, defaults) == defaults


def parse_finish(reason: str) -> Finish:
    """Return why an answer ends, from the reason that a response names."""
    return _FINISHES.get(reason.lower(), Finish.MISSING)


def _find_finish(reason: str | None, answer_tokens: int | None, max_tokens: int) -> Finish:
    """Return why an answer ends, from the provider's reason and number of tokens."""
    if reason is not None:
        return parse_finish(reason)
    # without a reason, only the number of tokens can show that the answer was cut
    if answer_tokens is None:
        return Finish.MISSING
    return Finish.TRUNCATED if answer_tokens >= max_tokens else Finish.ENDED


def _read_text(
    text: str | None,
    calls: list[Any],
    finish: Finish,
    *,
    reads_calls: bool,
    has_thought: bool = False,
) -> tuple[str, Finish]:
    """Return the text of an answer, and why it ends, or that it was not given.

    A call of a provider's own tool, a hidden thought alone and a missing text are not the answer
    "", which satisfies every requirement that a text does not contain something.

    Args:
        text: the text; None without one.
        calls: the calls of tools.
        finish: why the answer ends, if it was given.
        reads_calls: as in `TextApi.read_answer`.
        has_thought: whether the response contains a thought, after which the answer was cut.
    """
    if reads_calls and (calls or finish is Finish.CALLED):
        # a call ends an answer, unless it was cut or withheld; Gemini leaves out a malformed one
        ended = Finish.ENDED if finish is Finish.CALLED else finish
        return (text or "") + write_calls(calls or [None]), ended
    if finish not in (Finish.ENDED, Finish.TRUNCATED):
        return text or "", finish
    if calls:
        return text or "", Finish.CALLED
    # all tokens of an answer that was cut before its first character are hidden thoughts
    is_given = text is not None and (text != "" or finish is Finish.ENDED)
    is_given |= has_thought and finish is Finish.TRUNCATED
    return text or "", finish if is_given else Finish.MISSING
