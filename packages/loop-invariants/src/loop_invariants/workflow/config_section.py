"""The section `invariants` of a configuration: its keys, limits and defaults."""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, WithJsonSchema

from llmchecker.config.experiments import check_name
from llmchecker.config.keys import TruncationKeys
from llmchecker.config.models import ModelConfig
from llmchecker.errors import ConfigError, prefix_errors
from llmchecker.trees.text_tree import Truncation
from llmchecker.utils.section import TEXT_OR_SECTION, Distinct, OptionalKey, Section, Seed, Sha256
from loop_invariants.ir.expressions import Semantics
from loop_invariants.proposals.settings import ProposalSettings
from loop_invariants.sources import ProgramSource, parse_program_source

# not strict: a file holds the name of the value
_SemanticsName = Annotated[
    Semantics,
    Field(strict=False),
    WithJsonSchema({"type": "string", "enum": [s.value for s in Semantics]}),
]


class ProgramKeys(Section):
    """The origin of programs."""

    source: str
    """path:directory, or archive: with the https address or path of a .tar.gz or .zip file."""
    folder: OptionalKey[str] = None
    """For an archive, the folder of the C files, without its single top directory."""
    sha256: OptionalKey[Sha256] = None
    """Checksum of the programs and the files that they include, required for an archive. `LC_ALL=C;
    sha256sum * | sha256sum` prints it in a directory with these files alone."""


class InvariantsConfig(Section):
    """Loop invariants of C programs, for the target `invariants`."""

    program_keys: Annotated[str | ProgramKeys, TEXT_OR_SECTION] = Field(alias="programs")
    """The programs: path:directory with C files, or the keys below."""
    models: OptionalKey[Distinct[str]] = None
    """Names of causal models that propose invariants; by default all local ones. The first also
    proposes for the comparison of tools."""
    semantics: Distinct[_SemanticsName] = tuple(Semantics)
    """Mathematical integers (integers), or machine integers that wrap around (int32)."""
    seconds: float = Field(default=60, gt=0, le=1_000_000)
    """Time limit in seconds of one attempt on a program."""
    tool_seconds: float = Field(default=5, gt=0, le=1_000_000)
    """Time limit in seconds of ESBMC for a program without invariants."""
    iterations: int = Field(default=30, ge=1, le=30)
    """Answers of a model to each kind of prompt."""
    candidates: int = Field(default=100, ge=1, le=1_000_000)
    """The largest number of candidates of each source but sampling, for a loop."""
    seed: Seed = 0
    """Seed of a model's sampled answers and of random candidates."""
    provable_keys: TruncationKeys = Field(
        default=TruncationKeys(alpha=0.8, k=4, L=7), alias="provable"
    )
    """Truncation of the trees for the probability of a provable invariant."""

    @property
    def programs(self) -> ProgramSource:
        """The origin of the programs.

        Raises:
            ConfigError: the keys do not name programs.
        """
        keys = self.program_keys
        return parse_program_source(
            # A single text is short for the key `source`.
            **({"source": keys} if isinstance(keys, str) else keys.explicit_keys)
        )

    @property
    def proposal_settings(self) -> ProposalSettings:
        """The settings of proposals; the seed is also that of random candidates."""
        return ProposalSettings(self.iterations, self.seed)

    @property
    def attempt_settings(self) -> dict[str, float]:
        """The limits of an attempt on a program, and the seed of random candidates."""
        names = ("seconds", "tool_seconds", "candidates", "seed")
        return {name: getattr(self, name) for name in names}

    @property
    def provable_truncation(self) -> Truncation:
        """The truncation of the trees for the table of provable invariants."""
        return self.provable_keys.truncation

    def complete(self, models: Mapping[str, ModelConfig]) -> "InvariantsConfig":
        """Check the section with the models of the configuration, and add their default names.

        Raises:
            ConfigError: the programs or a model is missing, or a model cannot propose.
        """
        with prefix_errors("invariants.programs"):
            # Raises for an absent local directory now, and not in a job hours later.
            self.programs.state()
        # The default skips models that cannot propose; a list with such a model is an error.
        causal_names = [
            name for name, m in models.items() if m.kind == "causal" and m.decoding is None
        ]
        names = tuple(causal_names) if self.models is None else self.models
        for number, name in enumerate(names):
            key = f"invariants.models[{number}]"
            # A masked model predicts a token at a mask and does not continue a text.
            if models[check_name(key, name, models, "model")].kind == "masked":
                raise ConfigError(f"{key}: {name!r} is a masked model; name a causal model")
            # Proposals are always drawn at temperature 1.
            if models[name].decoding is not None:
                raise ConfigError(
                    f"{key}: {name!r} has a decoding, but proposals need temperature 1; name a "
                    "model without decoding"
                )
        if not names:
            raise ConfigError("invariants.models: no causal model; add one")
        # The section is frozen; the copy contains the default names of models.
        return self.model_copy(update={"models": names})
