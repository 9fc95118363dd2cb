"""Files of attempts: each table and figure on programs reads the attempts that it compares."""

from llmchecker.config.config import Config
from loop_invariants.workflow.attempt_files import find_attempt_files


def config(tmp_path) -> Config:
    """A configuration of two models, `a` and `b`, with labels of their own."""
    (tmp_path / "p.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
    models = {name: {"label": f"{{{name}}}", "source": f"path:{name}"} for name in ("a", "b")}
    section = {"programs": f"path:{tmp_path}", "semantics": ["integers"]}
    return Config.parse({"models": models, "invariants": section})


def test_attempts_are_grouped_by_the_label_of_their_model(tmp_path):
    """Sources include the attempts without a model."""
    found = find_attempt_files(config(tmp_path))
    folder = "results/invariants"
    assert found.variants == {f"{{{n}}}": [f"{folder}/variants/{n}/integers.json"] for n in "ab"}
    assert found.sources == {
        f"{{{name}}}": [
            f"{folder}/baselines/integers.json",
            f"{folder}/sources/{name}/integers.json",
        ]
        for name in "ab"
    }


def test_tools_are_compared_with_the_first_model(tmp_path):
    """The method's attempts are those with proposals of the first model; tools have a figure."""
    found = find_attempt_files(config(tmp_path))
    assert found.method == ["results/invariants/sources/a/integers.json"]
    assert found.tools == ["results/invariants/tools/integers.json"]
    assert found.figures == {
        "variants_a": ["results/invariants/variants/a/integers.json"],
        "variants_b": ["results/invariants/variants/b/integers.json"],
        "tools": found.tools,
    }
