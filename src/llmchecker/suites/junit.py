"""Results as JUnit XML, for the readers of continuous integration.

The structure is that of the schema of Jenkins' xUnit plugin (junit-10.xsd).
"""

from pathlib import Path
from xml.etree import ElementTree

from llmchecker.suites.entries import Entry, build_entries, describe_confidence
from llmchecker.suites.notes import build_notes, describe_incomplete
from llmchecker.suites.results import SuiteResult
from llmchecker.suites.verdicts import Status
from llmchecker.utils.atomic_files import atomic_write
from llmchecker.utils.printable_text import escape_unprintable

_NOTES = {Status.ERROR: "error", Status.VIOLATED: "failure"}
"""The element of a test case by its status."""


def write_junit(result: SuiteResult, path: str | Path, *, allow_unknown: bool = False) -> None:
    """Write a result as JUnit XML.

    Args:
        result: the result.
        path: the file.
        allow_unknown: whether an unknown case counts as skipped, not as a failure.
    """
    with atomic_write(path) as partial:
        partial.write_bytes(format_junit(result, allow_unknown=allow_unknown))


def format_junit(result: SuiteResult, *, allow_unknown: bool = False) -> bytes:
    """Format a result as JUnit XML: a test suite for each model."""
    elements = _NOTES | {Status.UNKNOWN: "skipped" if allow_unknown else "failure"}
    # a figure without a requirement is no test
    entries = [entry for entry in build_entries(result) if entry.status is not Status.MEASURED]
    notes = build_notes(result)
    if (incomplete := describe_incomplete(result)) is not None:
        # readers show no property of a suite, and the tests so far may all have passed
        entries.append(
            Entry(
                deployment=escape_unprintable(result.suite.deployments[0].name),
                group="run",
                name="the whole suite",
                status=Status.ERROR,
                reasons=(incomplete,),
            )
        )
    root = ElementTree.Element("testsuites", _count(entries, elements, skipped=False))
    for deployment in dict.fromkeys(entry.deployment for entry in entries):
        tests = [entry for entry in entries if entry.deployment == deployment]
        name = f"{result.suite.name} [{deployment}]"
        suite = ElementTree.SubElement(
            root, "testsuite", {"name": name, **_count(tests, elements, skipped=True)}
        )
        properties = ElementTree.SubElement(suite, "properties")
        if value := " ".join(describe_confidence(result, tests)):
            ElementTree.SubElement(properties, "property", {"name": "confidence", "value": value})
        for entry in tests:
            _add_test(suite, result.suite.name, entry, elements)
        if notes:
            ElementTree.SubElement(suite, "system-out").text = "\n".join(notes)
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _add_test(
    suite: ElementTree.Element, name: str, entry: Entry, elements: dict[Status, str]
) -> None:
    test = ElementTree.SubElement(
        suite,
        "testcase",
        {
            "classname": f"{name}.{entry.group}",
            "name": entry.name,
            "time": f"{entry.seconds:.3f}",
        },
    )
    prompt = [f"prompt: {entry.prompt}"] if entry.prompt else []
    query = [entry.query] if entry.query else []
    about = [entry.about] if entry.about else []
    if (element := elements.get(entry.status)) is None:
        lines = [entry.content, entry.figures, *about, *entry.lines]
        ElementTree.SubElement(test, "system-out").text = "\n".join(filter(None, lines))
        return
    message = ", ".join(part for part in (entry.verdict, entry.figures) if part)
    if entry.threshold:
        message += f"; required: {entry.content}"
    note = ElementTree.SubElement(test, element, {"type": entry.status, "message": message})
    note.text = "\n".join([*query, *prompt, *about, *entry.lines])


def _count(entries: list[Entry], elements: dict[Status, str], *, skipped: bool) -> dict[str, str]:
    """Return the numbers of tests as attributes."""
    found = [elements.get(entry.status) for entry in entries]
    counts = {
        "tests": str(len(entries)),
        "failures": str(found.count("failure")),
        "errors": str(found.count("error")),
        "time": f"{sum(entry.seconds for entry in entries):.3f}",
    }
    # the schema has this attribute for a test suite only
    return counts | ({"skipped": str(found.count("skipped"))} if skipped else {})
