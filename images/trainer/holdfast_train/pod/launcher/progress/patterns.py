"""`Pattern`: text with named numbers, such as `step {step}/{total} loss={loss}`, and how it is found in a line.

Launcher and program share a container whose Python has no RE2, and `re` can take exponential time. So this language has
nothing that can be tried in two ways: each number is taken as a whole, and each part between two `*` is looked for
once, at its first place. A search takes at most len(line) x len(pattern) steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

PRESETS: Mapping[str, tuple[str, ...]] = {
    "tqdm": ("%|*| {step}/{total} [", "%|*| {step}/{total} [*loss={loss}"),
    "lightning": (
        "Epoch {epoch}:*%|*| {bar_step}/{bar_steps} [",
        "Epoch {epoch}:*%|*| {bar_step}/{bar_steps} [*train_loss={loss}",
        "Epoch {epoch}:*%|*| {bar_step}/{bar_steps} [*train_loss_step={loss}",
        "Epoch {epoch}:*%|*| {bar_step}/{bar_steps} [*loss={loss}",
    ),
}
# Descriptions of bars that libraries show beside a training, and the unit of those that prepare data.
_ASIDE = re.compile(
    r"\s*(?:add|apply|build|cach|cast|check|collect|comput|convert|creat|download|drop|eval|extract|fetch|filter|flatten"
    r"|format|generat|group|import|inference|load|map\b|materializ|pack|predict|prepar|preprocess|process|quantiz|read"
    r"|resolv|running tokenizer|sampl|sanity|sav|scan|shuffl|test|tokeniz|truncat|unpack|upload|val|verif|writ)"
    r"|.*\bexamples/s\]",
    re.IGNORECASE,
)
_COUNT = r"[0-9]{1,16}"
_REAL = (
    r"[+-]?(?:(?:[0-9]{1,20}(?:\.[0-9]{0,20})?|\.[0-9]{1,20})(?:[eE][+-]?[0-9]{1,3})?"
    r"|(?:[nN][aA][nN]|[iI][nN][fF](?:inity)?)(?![A-Za-z_]))"
)
_NUMBERS = {
    **dict.fromkeys(("step", "total", "bar_step", "bar_steps"), _COUNT),
    **dict.fromkeys(("epoch", "epoch_from_1", "epochs", "epoch_step", "epoch_steps"), _COUNT),
    **dict.fromkeys(("loss", "grad_norm"), _REAL),
}
# A part of a number is another number: 1.5 has no 1 and no 5, and 1,200 has no 200.
_BEFORE, _AFTER, _THOUSANDS = r"(?<![\w.,-])", r"(?![0-9]|\.[0-9]|[eE][+-]?[0-9])", r"(?!,[0-9]{3}(?![0-9]))"
_TOKENS = re.compile(r"\{\{|\}\}|\{([a-z_][a-z_0-9]*)\}|[ \t]+|[^{} \t]")
_BLANKS = re.compile(r"[ \t]*")


class _Run:
    """What stands between two `*`: texts, blanks and numbers, one directly after the other."""

    def __init__(self, text: str) -> None:
        self._parts: list[tuple[str, str, re.Pattern[str] | None]] = []  # text; "" and blanks; name and number
        tokens = list(_TOKENS.finditer(text.strip(" \t")))
        for index, token in enumerate(tokens):
            if token[1]:
                follows = tokens[index + 1][0] if index + 1 < len(tokens) else ""
                ends = _AFTER if follows == "," else _AFTER + _THOUSANDS
                form = f"(?:{_NUMBERS[token[1]]}){ends}"
                self._parts.append(("number", token[1], re.compile(form if self._parts else _BEFORE + form)))
            elif token[0].isspace():
                self._parts.append(("blanks", "", _BLANKS))
            else:
                self._add(token[0][0])

    def _add(self, letter: str) -> None:
        before = self._parts.pop()[1] if self._parts and self._parts[-1][0] == "text" else ""
        self._parts.append(("text", before + letter, None))

    def search(self, line: str, start: int, values: dict[str, str]) -> int | None:
        """The end of the first place at or after `start`, whose numbers go into `values`; None if there is none."""
        while True:
            start = self._next(line, start)
            if start < 0:
                return None
            end = self._end(line, start, values)
            if end is not None:
                return end
            start += 1

    def _next(self, line: str, start: int) -> int:
        """Where the first part is found; -1 if it is not. A word begins where a word begins in the line."""
        kind, text, form = self._parts[0]
        if kind == "number" and form is not None:
            found = form.search(line, start)
            return -1 if found is None else found.start()
        start = line.find(text, start)
        while start > 0 and _in_word(text[0]) and _in_word(line[start - 1]):
            start = line.find(text, start + 1)
        return start

    def _end(self, line: str, at: int, values: dict[str, str]) -> int | None:
        found = {}
        for _, text, form in self._parts:
            if form is None:
                if not line.startswith(text, at):
                    return None
                at += len(text)
                continue
            match = form.match(line, at)
            if match is None:
                return None
            at = match.end()
            if text:
                found[text] = match[0]
        values.update(found)
        return at


class Pattern:
    """One pattern. `*` stands for any text, blanks for any number of blanks, `{{` and `}}` for one brace.

    `of_bars`: it reads any bar, so those that are not of a training are left out.
    """

    def __init__(self, text: str, *, of_bars: bool = False) -> None:
        """Raises KeyError if a placeholder has an unknown name."""
        self._of_bars = of_bars
        self._runs = [_Run(run) for run in text.split("*") if run.strip(" \t")]

    def find(self, line: str) -> dict[str, str] | None:
        """The numbers of the first place in the line, by name; None if there is no such place."""
        if self._of_bars and _ASIDE.match(line):
            return None
        values: dict[str, str] = {}
        at: int | None = 0
        for run in self._runs:
            at = run.search(line, at or 0, values)
            if at is None:
                return None
        return values


def patterns_of(texts: Iterable[str]) -> list[Pattern]:
    """The patterns; the name of a preset stands for several. Raises KeyError if a placeholder has an unknown name."""
    return [Pattern(text, of_bars=given == "tqdm") for given in texts for text in PRESETS.get(given, (given,))]


def _in_word(letter: str) -> bool:
    return letter.isalnum() or letter == "_"
