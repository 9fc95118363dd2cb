"""Applications: functions of Python that answer messages, as models that return texts alone."""

import asyncio
import inspect
import re
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from llmchecker.errors import ConfigError, LLMCheckerError, SourceUnavailable
from llmchecker.models.decoding.chat_template import Chat, Start, start_as_json
from llmchecker.models.servers.answer_store import AnswerFile, derive_seed
from llmchecker.models.servers.event_loop import call_in_thread, run_event_loop
from llmchecker.models.text_answer import Finish, TextAnswer, TextStream, format_time

_Messages = list[dict[str, Any]]
"""Messages as `{"role": "user", "content": "Is it so?"}`."""
AnswerFunction = Callable[..., str | TextAnswer | Awaitable[str | TextAnswer]]
"""A function, or a coroutine function, from messages to an answer."""

_OPTIONS = ("max_tokens", "seed")
"""Parameters of an answering function that get the horizon and the seed of an answer."""
_POLL_SECONDS = 0.2
"""Seconds after which a wait for an answer looks whether it is still wanted."""
_FIRST_PAUSE_SECONDS = 0.5
"""Seconds before the second attempt, doubled before each further one."""


class Application:
    """An application that answers messages, asked through a function.

    Each answer is one call. An exception, and a call that takes too long, lose an answer: the call
    is repeated, and its answer is no sample, since long or difficult answers are lost more often.

    Attributes:
        name: its name in messages.

    Args:
        function: gets the messages, and returns a text or a `TextAnswer`. A parameter `max_tokens`
            gets the horizon in tokens, a parameter `seed` a number for each answer. Further
            parameters get columns of the prompt of the same name, with `_` for other characters.
        name: as above; by default that of the function.
        concurrency: the largest number of calls at once.
        seconds: time limit of a call.
        attempts: the number of calls for an answer after which the work ends with their error.
        store: a folder of stored answers, so that none is asked for twice; None for no folder.
        version: the version of the application. Stored answers of another version are not used.

    Raises:
        ConfigError: a value is out of its range.
    """

    def __init__(
        self,
        function: AnswerFunction,
        *,
        name: str | None = None,
        concurrency: int = 8,
        seconds: float = 60.0,
        attempts: int = 3,
        store: str | Path | None = None,
        version: str = "",
    ) -> None:
        if not callable(function):
            raise ConfigError(f"function: {function!r} is no function; give one of messages")
        for key, value in (("concurrency", concurrency), ("attempts", attempts)):
            if value < 1:
                raise ConfigError(f"{key}: {value!r} is below 1; give at least 1")
        if not seconds > 0:
            raise ConfigError(f"seconds: {seconds!r} is not above 0; give a positive number")
        self.name = name or str(getattr(function, "__name__", type(function).__name__))
        self._function, self._version = function, version
        self._concurrency, self._seconds, self._attempts = concurrency, seconds, attempts
        self._folder = None if store is None else Path(store).absolute()
        self._parameters = _find_parameters(function)
        self._files: dict[TextStream, AnswerFile] = {}

    @property
    def description(self) -> str:
        """The name, the version, and whether the horizon limits the answers."""
        version = f" {self._version}" if self._version else ""
        limit = "" if self._takes("max_tokens") else ", which ends its answers itself"
        return f"{self.name}{version}{limit}"

    @property
    def record(self) -> dict[str, Any]:
        """What determines the answers, as JSON."""
        return {"application": self.name, "version": self._version}

    @property
    def local_files(self) -> dict[str, Path]:
        """No files: the version stands for them."""
        return {}

    def takes_column(self, name: str) -> bool:
        """Return whether a parameter of its own gets a column."""
        return _name_parameter(name) in self._parameters.keys() - {*_OPTIONS, "**"}

    def check_prompt(self, prompt: Start, name: str = "") -> None:
        """Check that a prompt has the columns that the function takes, and no tools.

        A text is one message of the user.

        Raises:
            ConfigError: it has tools, which a function does not get, or other columns.
        """
        if isinstance(prompt, Chat) and prompt.tools:
            raise ConfigError(f"tools: {self.name} has its own tools; leave them out")
        columns = prompt.column_values if isinstance(prompt, Chat) else {}
        given = {_name_parameter(column): column for column in columns}
        for parameter, is_required in self._parameters.items():
            if is_required and parameter not in given and parameter not in _OPTIONS:
                raise ConfigError(f"columns: {self.name} takes {parameter}; add the column")
        for parameter, column in given.items():
            if parameter in _OPTIONS or not self._takes(parameter):
                raise ConfigError(
                    f"columns: {self.name} has no parameter {parameter}; add it, or remove {column}"
                )

    def find_spent_limit(self, stream: TextStream, number: int) -> str | None:
        """Return None: an application has no limit of tokens or money."""

    def iter_answers(
        self,
        next_request: Callable[[], tuple[TextStream, int] | None],
        must_stop: Callable[[], bool] = lambda: False,
    ) -> Iterator[tuple[TextStream, TextAnswer | LLMCheckerError]]:
        """Yield answers in the order of their requests.

        Args:
            next_request, must_stop: as in `TextModel`.

        Raises:
            DamagedFile: a stored answer is damaged.
        """
        waiting: deque[tuple[TextStream, Future[TextAnswer | LLMCheckerError]]] = deque()
        with run_event_loop() as loop:
            try:
                while True:
                    while len(waiting) < self._concurrency and (item := next_request()) is not None:
                        answering = asyncio.run_coroutine_threadsafe(self._answer(*item), loop)
                        waiting.append((item[0], answering))
                    if not waiting:
                        return
                    stream, future = waiting[0]
                    while not future.done() and not wait([future], _POLL_SECONDS).done:
                        if must_stop():
                            return
                    waiting.popleft()
                    yield stream, future.result()
            finally:
                for _, future in waiting:
                    future.cancel()
                asyncio.run_coroutine_threadsafe(_await_others(), loop).result()

    async def _answer(self, stream: TextStream, number: int) -> TextAnswer | LLMCheckerError:
        """Return a stored answer, or call the function, at most as often as allowed."""
        file = self._open_file(stream)
        if file is not None and number in file.answers:
            return file.answers[number]
        options = {"max_tokens": stream.length, "seed": derive_seed(self._digest(stream), number)}
        given: dict[str, Any] = {name: options[name] for name in _OPTIONS if self._takes(name)}
        if isinstance(stream.prompt, Chat):
            columns = stream.prompt.column_values.items()
            given |= {_name_parameter(name): value for name, value in columns}
        if file is not None:
            file.begin_request(number)
        error: Exception | None = None
        for attempt in range(self._attempts):
            if attempt:
                await asyncio.sleep(_FIRST_PAUSE_SECONDS * 2 ** (attempt - 1))
            call = self._call(_list_messages(stream.prompt), given)
            try:
                found = await asyncio.wait_for(call, self._seconds)
            except Exception as failure:
                error = failure
                continue
            if isinstance(found, str):
                found = TextAnswer(found, Finish.ENDED)
            # no further attempt would return another type
            if not isinstance(found, TextAnswer):
                problem = f"it returned {found!r}; return a text or a TextAnswer"
                return SourceUnavailable(f"{self.name}: {problem}")
            is_repeated = attempt > 0 or found.is_repeated
            answer = replace(found, is_repeated=is_repeated, time=found.time or format_time())
            return answer if file is None else file.add(number, answer)
        return SourceUnavailable(f"{self.name}: {_describe(error, self._seconds)}")

    def _takes(self, parameter: str) -> bool:
        return parameter in self._parameters or "**" in self._parameters

    async def _call(self, messages: _Messages, options: dict[str, Any]) -> Any:
        call = partial(self._function, messages, **options)
        # a function may also return an awaitable, which belongs to this event loop
        found = call() if _is_coroutine(self._function) else await call_in_thread(call)
        return await found if inspect.isawaitable(found) else found

    def _digest(self, stream: TextStream) -> str:
        return repr((self.name, self._version, start_as_json(stream.prompt), stream.seed))

    def _open_file(self, stream: TextStream) -> AnswerFile | None:
        if self._folder is None:
            return None
        if stream not in self._files:
            request = {
                "application": self.name,
                "version": self._version,
                "length": stream.length,
                "seed": stream.seed,
                "prompt": start_as_json(stream.prompt),
            }
            self._files[stream] = AnswerFile(self._folder, request)
        return self._files[stream]


def _list_messages(prompt: Start) -> _Messages:
    return prompt.as_json if isinstance(prompt, Chat) else [{"role": "user", "content": prompt}]


def _is_coroutine(function: AnswerFunction) -> bool:
    # an object with a method `__call__` is no function
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def _find_parameters(function: AnswerFunction) -> dict[str, bool]:
    """Return the parameters after the messages, each with whether it has no default.

    The name `**` stands for any other parameters.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    # some builtins have no signature
    except (TypeError, ValueError):
        return {}
    found: dict[str, bool] = {}
    # the messages are the first argument, also of `*arguments`
    for number, each in enumerate(parameters):
        if each.kind is each.VAR_KEYWORD:
            found["**"] = False
        elif each.kind is each.KEYWORD_ONLY or (number and each.kind is each.POSITIONAL_OR_KEYWORD):
            found[each.name] = each.default is each.empty
    return found


def _name_parameter(column: str) -> str:
    """Return the name of the parameter of a column: `user_id` for `user id`."""
    return re.sub(r"\W", "_", column)


def _describe(error: Exception | None, seconds: float) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"no answer within {seconds:g} s; allow more seconds"
    return f"{type(error).__name__}: {error}"


async def _await_others() -> None:
    """Wait until all other tasks of the event loop are cancelled."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
