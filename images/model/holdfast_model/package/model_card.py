"""README.md of a package: what the model is for, where it is from, and which of its variants passed."""

from collections.abc import Mapping
from typing import Any

from holdfast_model.pages.fragments import size_text


def readme(document: Mapping[str, Any], failed: Mapping[str, str]) -> str:
    """Markdown. `failed`: variants that are not in the package, or are marked as failed, with the reason."""
    origin, problem = document["from"], document["problem"]
    parts = [
        f"# {_text(document['name'])}\n",
        f"From step {origin['step']:,} of the checkpoint `{_code(origin['manifest'])}`.",
        *([_metrics(origin["metrics"])] if origin.get("metrics") else []),
        "\n## Inputs and outputs\n",
        "| | name | type | shape |\n|---|---|---|---|",
        *(_row("input", one) for one in problem["inputs"]),
        *(_row("output", one) for one in problem["outputs"]),
    ]
    if problem["dims"]:
        limits = "; ".join(f"`{symbol}` is {least} to {most}" for symbol, (least, most) in problem["dims"].items())
        parts.append(f"\nA symbol has one value in a call: {limits}.")
    parts += ["\n## Variants\n", *_variants(document)]
    if failed:
        parts.append("\nThese did not pass their test:\n")
        parts += [f"- {name}: {_text(why)}" for name, why in failed.items()]
    parts += ["\n## Use it\n", _use(document)]
    return "\n".join(parts) + "\n"


def _metrics(metrics: Mapping[str, str]) -> str:
    return (
        "Measured in training: " + ", ".join(f"{_text(name)} {_text(value)}" for name, value in metrics.items()) + "."
    )


def _row(side: str, one: Mapping[str, Any]) -> str:
    return f"| {side} | {one['name']} | {one['dtype']} | ({', '.join(map(str, one['shape']))}) |"


def _variants(document: Mapping[str, Any]) -> list[str]:
    score = document.get("score")
    head = f"| variant | size | largest difference | agreement | {_text(score['name']) if score else 'score'} | note |"
    lines = [head, "|---|---|---|---|---|---|"]
    if score:
        lines.append(f"| the model in torch | | | | {score['reference']} | |")
    for name, entry in document["variants"].items():
        tested = entry["tested"] or {}
        size = sum(file["bytes"] for file in entry["files"].values())
        cells = (tested.get(key, "") for key in ("largest", "agreement", "score"))
        note = entry.get("note", "") if tested.get("passed", True) else f"FAILED: {tested['why']}"
        lines.append(f"| {name} | {size_text(size)} | {' | '.join(cells)} | {_text(note)} |")
    lines.append(
        "\nThe difference is the largest one over the largest output, on "
        f"{len(document['tests']['cases'])} test inputs of {document['tests']['file']}."
    )
    return lines


def _use(document: Mapping[str, Any]) -> str:
    inputs = ", ".join(f'"{one["name"]}": {one["name"]}' for one in document["problem"]["inputs"])
    return (
        "```python\nfrom holdfast_model.package import load\n\n"
        f'with load("{_code(document["name"])}") as model:  # needs numpy and onnxruntime, or torch\n'
        f"    outputs = model({{{inputs}}})\n```"
    )


def _text(value: object) -> str:
    """One line without what Markdown takes for a table, HTML or a link."""
    return " ".join(str(value).split()).replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")


def _code(value: object) -> str:
    return " ".join(str(value).split()).replace("`", "'")
