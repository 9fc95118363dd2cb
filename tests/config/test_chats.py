"""Start strings that are messages: how a configuration names them, and what is refused."""

from pathlib import Path

from llmchecker.config.config import Config
from llmchecker.models.decoding.chat_template import Chat
from llmchecker.models.decoding.settings import Decoding
from llmchecker.suites.load import load_suite

ROOT = Path(__file__).parents[2]


def raw(start) -> dict:
    """A configuration with one start string."""
    return {
        "models": {"m": {"label": "M", "source": "path:model"}},
        "start_strings": {"s": start},
        "quantifiers": {"gender": {}},
        "experiments": [],
    }


def test_a_start_string_may_be_messages():
    """A list of messages is a chat, and a text stays a text."""
    entry = [{"system": "Be kind."}, {"user": "Hi"}, {"assistant": "Hello"}, {"user": "Why?"}]
    roles = ("system", "user", "assistant", "user")
    texts = ("Be kind.", "Hi", "Hello", "Why?")
    assert Config.parse(raw(entry)).start_strings["s"] == Chat(
        tuple(zip(roles, texts, strict=True))
    )
    assert Config.parse(raw("user: Hi")).start_strings["s"] == "user: Hi"


def test_the_configuration_of_chats_asks_a_deployed_model(monkeypatch):
    """config/chat.yaml asks the model of config.yaml with messages, two turns and a decoding."""
    config = Config.read(ROOT / "config/chat.yaml")
    (model,) = config.models.values()
    assert model.source == Config.read(ROOT / "config.yaml").models[model.name].source
    assert model.decoding == Decoding(temperature=0.2, top_p=0.9)
    assert all(isinstance(start, Chat) for start in config.start_strings.values())
    assert {spec.truncation.alpha for spec in config.trees(model.name)} == {1.0}
    monkeypatch.chdir(ROOT)
    suite = load_suite(config.suites["turns"].file, models=[model.name], config=config)
    (conversation,) = {case.question.conversation for case in suite.cases}
    assert conversation.turn_count == 2
    answered = {check.tree for check, _ in config.answered_checks(model.name)}
    assert len(answered) == 3
    assert [tree.decoding for tree in answered].count(Decoding()) == 1
