"""The cause catalogue: what each cause is, how it shows and what to do, as data in ``causes/*.toml``.

An entry is added by data alone; `reveal_core.attribute.document` prints the recipe at the head of
``docs/causes.md``. How signals are matched with signatures is in `reveal_core.attribute.matching`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from reveal_core.channels import Subsystem
from reveal_core.errors import UsageError
from reveal_core.incidents import ACTIONS

Part = Literal["value", "mean", "max", "imbalance"]
Statistic = Literal["", "level", "spread", "minimum", "maximum", "trend", "roughness"]


def _action(value: str) -> str:
    if value not in ACTIONS:
        raise ValueError(f"is none of {', '.join(ACTIONS)}")
    return value


def _sentences(value: str) -> str:
    if not value.endswith("."):
        raise ValueError("must be whole sentences")
    return value


Action = Annotated[str, AfterValidator(_action)]
Text = Annotated[str, Field(min_length=1)]
Sentences = Annotated[str, AfterValidator(_sentences)]
Words = Annotated[tuple[Text, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Term:
    """A signal that a cause moves.

    Attributes
    ----------
    says
        Words the evidence, as a clause: "TCP sent segments again".
    up, down
        Metrics, as shell patterns, that rise and that fall. They are alternatives: the one that moved
        furthest in its direction speaks.
    weight
        How much the term counts beside the others.
    gain, close
        Times that its signals count, or of them those of metrics that match ``close``: more than 1 where a
        move that is not worth an alarm is telling all the same, once something else has raised one.
    required
        Without it the cause is not named.
    parts, statistic
        Restrict it to such features, ``imbalance`` of a ``level`` for instance; any where empty.
    state, codes
        Instead of directions: the state's name, and the values that it must have taken in the incident, for
        states that number what happened (the last Xid of a GPU).
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    says: Text
    up: tuple[Text, ...] = ()
    down: tuple[Text, ...] = ()
    weight: Annotated[float, Field(gt=0)] = 1.0
    gain: Annotated[float, Field(gt=0)] = 1.0
    close: tuple[Text, ...] = ()
    required: bool = False
    parts: tuple[Part, ...] = ()
    statistic: Statistic = ""
    state: str = ""
    codes: tuple[int, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """All patterns of metrics that it listens to."""
        return (*self.up, *self.down, *((self.state,) if self.state else ()))

    def gain_of(self, metric: str) -> float:
        """Return how many times a metric's signals count."""
        listened = not self.close or any(fnmatchcase(metric, pattern) for pattern in self.close)
        return self.gain if listened else 1.0


@dataclass(frozen=True)
class Cause:
    """An entry of the catalogue.

    Attributes
    ----------
    id, title, subsystem
        What it is called, in ids and in words, and the subsystem that it strikes.
    explanation, fix
        What happens, and what to do about it, in whole sentences.
    action
        What it suggests to do: one of `ACTIONS`.
    source
        Where this is written: a file of the kernel's documentation, a standard, a manual, a paper.
    terms, against
        Its signature: what it moves; and what contradicts it, because something else explains the same.
    commands, checks
        Commands to copy, and questions that confirm it or rule it out.
    same_signals, caveat
        Ids of causes that signals cannot tell from this one, and why.
    at_most
        Its confidence is never above this: for what is said only for want of anything better.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    id: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]*$")]
    title: Text
    subsystem: Subsystem
    explanation: Sentences
    fix: Sentences
    action: Action
    source: Text
    terms: Annotated[tuple[Term, ...], Field(min_length=1)]
    commands: Words
    checks: Words
    against: tuple[Term, ...] = ()
    same_signals: tuple[Text, ...] = ()
    caveat: str = ""
    at_most: Annotated[float, Field(gt=0, le=1)] = 1.0


@cache
def _adapter() -> TypeAdapter[Cause]:
    return TypeAdapter(Cause)


@cache
def load_causes(folder: Path | None = None) -> tuple[Cause, ...]:
    """Return the catalogue: the files of this package, and those of another folder if one is given.

    Parameters
    ----------
    folder
        Holds further ``*.toml`` files of entries.

    Raises
    ------
    UsageError
        If an entry is malformed, appears twice or names a cause that does not exist; one line that names
        file, entry and what is wrong.
    """
    causes: dict[str, Cause] = {}
    places: dict[str, str] = {}
    for place, entry in _entries(folder):
        cause = _cause(place, entry)
        if cause.id in causes:
            raise UsageError(f"{place}: {cause.id} is in the catalogue already, in {places[cause.id]}")
        causes[cause.id], places[cause.id] = cause, place
    for cause in causes.values():
        unknown = [other for other in cause.same_signals if other not in causes]
        if unknown:
            raise UsageError(f"{places[cause.id]}: {cause.id}: {unknown[0]} in same_signals is no cause")
    return tuple(causes.values())


@cache
def cause_by_id() -> dict[str, Cause]:
    """Return the catalogue of this package by id."""
    return {cause.id: cause for cause in load_causes()}


@cache
def state_metrics() -> tuple[str, ...]:
    """Return the states whose codes the catalogue listens to."""
    terms = (term for cause in load_causes() for term in (*cause.terms, *cause.against))
    return tuple(sorted({term.state for term in terms if term.state}))


def _entries(folder: Path | None) -> Iterator[tuple[str, Any]]:
    """Return every entry with the name of its file."""
    own = files(__package__).joinpath("causes").iterdir()
    paths: list[Traversable] = [
        *sorted((p for p in own if p.name.endswith(".toml")), key=lambda path: path.name),
        *(sorted(folder.glob("*.toml")) if folder is not None else ()),
    ]
    for path in paths:
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise UsageError(f"{path.name}: not TOML: {error}") from error
        entries = data.get("cause")
        if not isinstance(entries, list) or data.keys() != {"cause"}:
            raise UsageError(f"{path.name}: a file of causes holds [[cause]] entries and nothing else")
        for entry in entries:
            yield path.name, entry


def _cause(place: str, entry: Any) -> Cause:
    name = entry.get("id", "an entry without id") if isinstance(entry, dict) else "an entry"
    try:
        cause = _adapter().validate_python(entry)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        raise UsageError(f"{place}: {name}: {where}: {said[0].lower()}{said[1:]}") from error
    problem = _problem(cause)
    if problem:
        raise UsageError(f"{place}: {name}: {problem}")
    return cause


def _problem(cause: Cause) -> str:
    """Return what the types alone do not tell, or ``""``."""
    for number, term in enumerate((*cause.terms, *cause.against)):
        where = f"terms.{number}" if number < len(cause.terms) else f"against.{number - len(cause.terms)}"
        if bool(term.up or term.down) == bool(term.state):
            return f"{where}: a term names metrics that go up or down, or else a state"
        if bool(term.state) != bool(term.codes):
            return f"{where}: a state and its codes go together"
    if not any(term.required for term in cause.terms):
        return "no term is required, so it would explain everything a little"
    if any(term.required for term in cause.against):
        return "what speaks against a cause cannot be required"
    if bool(cause.same_signals) != bool(cause.caveat):
        return "same_signals and caveat go together"
    return ""
