"""Language model that is loaded, or whose server is connected, on first use."""

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from llmchecker.errors import UnusableModel
from llmchecker.models import fingerprint, run_metadata
from llmchecker.models.decoding.answer_reader import WHOLE_OUTPUT, AnswerReader, apply_reader
from llmchecker.models.decoding.settings import DecodingChoice, decoding_as_json
from llmchecker.models.decoding.template_settings import NO_SETTINGS, TemplateSettings
from llmchecker.models.end_of_sequence import EndOfSequence, apply_end_of_sequence
from llmchecker.models.servers.settings import SERVER_FILE, is_served
from llmchecker.models.sources.adapters import ADAPTERS_FILE
from llmchecker.models.sources.checksums import read_checksums
from llmchecker.models.sources.model_directory import find_quantizer, measure_weights
from llmchecker.utils.number_format import format_size
from llmchecker.utils.optional_packages import explain_missing_packages

if TYPE_CHECKING:
    from llmchecker.models.interface import LanguageModel
    from llmchecker.models.servers.served_model import ServedModel
    from llmchecker.models.transformers.causal import CausalModel
    from llmchecker.models.transformers.masked import MaskedModel


@dataclass(frozen=True)
class LazyModel:
    """Language model that is loaded, or whose server is connected, on first use.

    Args:
        directory: folder of the model.
        kind, dtype, device, threads, memory_bytes: as in `load_model`.
        decoding: decoding settings; None for temperature 1.
        end_of_sequence: whether an end-of-sequence token ends a text.
        template: settings of the chat template.
        reader: what is read of the model's answers.
        shared_from: instance whose loaded model this instance shares; see `with_decoding`.
    """

    directory: Path
    kind: Literal["causal", "masked", "served"]
    dtype: str
    device: str
    threads: int
    memory_bytes: int
    decoding: DecodingChoice = None
    end_of_sequence: EndOfSequence = "terminal"
    template: TemplateSettings = NO_SETTINGS
    reader: AnswerReader = WHOLE_OUTPUT
    shared_from: "LazyModel | None" = field(default=None, repr=False, compare=False)

    def with_decoding(self, decoding: DecodingChoice) -> Self:
        """Return this model with another decoding; the model itself for None.

        Both instances share one loaded model.
        """
        return self if decoding is None else replace(self, decoding=decoding, shared_from=self)

    def current_metadata(self) -> Mapping[str, Any]:
        """Return the fields of a `run_metadata.RunMetadata` with the current time."""
        return asdict(replace(self._metadata, date=run_metadata.utc_now()))

    @property
    def is_loaded(self) -> bool:
        """Whether the model was needed so far."""
        return "_base_model" in vars(self)

    @cached_property
    def model(self) -> "LanguageModel":
        """The model of queries and trees."""
        return apply_end_of_sequence(self.own_model, self.end_of_sequence)

    @cached_property
    def own_model(self) -> "LanguageModel":
        """The model with its own end tokens, whatever the end of sequence of queries."""
        base_model = self._base_model
        # imported here: torch takes seconds to import
        from llmchecker.models.transformers.load import apply_decoding

        if self.template:
            base_model = base_model.with_template(self.template)
        # a served model passes TopLogprobs where the interface names Distributions
        model = apply_decoding(base_model, self.decoding)  # type: ignore[arg-type]
        return apply_reader(model, self.reader)

    @cached_property
    def _base_model(self) -> "CausalModel | MaskedModel | ServedModel":
        # instances with different decodings share the weights
        if self.shared_from is not None:
            return self.shared_from._base_model
        if is_served(self.directory):
            with explain_missing_packages():
                from llmchecker.models.servers.connection import connect_model

            return connect_model(self.directory)
        if self.kind == "served":
            raise UnusableModel(
                f"{self.directory}: not fetched from the server that the configuration names; "
                "remove the directory and run the command again"
            )
        # before the imports, which take seconds too
        if size := measure_weights(self.directory):
            logging.info("loading %s, %s", self.directory.name, format_size(size))
        from llmchecker.models.transformers.load import load_model

        return load_model(
            *(self.directory, self.kind, self.dtype, self.device, self.threads, self.memory_bytes)
        )

    @cached_property
    def _metadata(self) -> run_metadata.RunMetadata:
        record = run_metadata.read_provenance(self.directory)
        versions = run_metadata.collect_versions(run_metadata.MODEL_PACKAGES)
        return run_metadata.RunMetadata(
            source=run_metadata.describe_source(record, self.directory),
            files=self.files,
            kind=self.kind,
            dtype=self.dtype,
            device=self.device,
            threads=self.threads,
            decoding=decoding_as_json(self.decoding),
            versions=versions | record.get("versions", {}),
            program=run_metadata.find_code_version(),
            machine=run_metadata.describe_machine(),
            date=run_metadata.utc_now(),
        )

    @property
    def files(self) -> Mapping[str, str]:
        """Sha256 of the model's files, as loaded or from the record of checksums."""
        return self._base_model.files if self.is_loaded else self._file_checksums

    @cached_property
    def _file_checksums(self) -> Mapping[str, str]:
        return read_checksums(self.directory)

    @property
    def text_settings(self) -> dict[str, Any]:
        """The settings that determine what the model writes and what of it is read, as JSON."""
        return {
            "kind": self.kind,
            "dtype": self.dtype,
            "decoding": decoding_as_json(self.decoding),
            "end_of_sequence": self.end_of_sequence,
            "template": self.template.as_json,
            "reader": self.reader.as_json,
        }

    @property
    def model_fingerprint(self) -> str:
        """Fingerprint of all inputs of the model's output, to the last bit.

        The processor and the libraries enter, because they determine the order of floating-point
        additions.
        """
        packages = ["torch", "transformers", "tokenizers"]
        packages += ["peft"] * (ADAPTERS_FILE in self.files)
        if SERVER_FILE not in self.files and (quantizer := find_quantizer(self.directory)):
            packages.append(quantizer)
        settings = [self.kind, self.dtype, self.device, fingerprint.find_processor_name()]
        return fingerprint.hash_inputs(
            dict(self.files),
            [*settings, decoding_as_json(self.decoding), self.template.as_json],
            [version(package) for package in packages],
            modules=fingerprint.select_modules(fingerprint.MODEL_MODULES, self.files),
        )
