"""Which columns of a table are what, by mapping or by name."""

from __future__ import annotations

from collections.abc import Sequence

from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.mapping import TableMapping
from reveal_core.importing.times import ISO, UNITS_NS, Times, parse_zone
from reveal_core.importing.types import ImportOptions
from reveal_core.timespec import parse_time, to_ns

TIME_NAMES = ("ts", "time", "timestamp", "datetime", "date_time", "date", "time_of_day_seconds", "epoch", "t")
HOST_NAMES = ("host", "hostname", "node", "nodename", "server", "machine")


def find_time(names: Sequence[str], mapping: TableMapping) -> str:
    """Return the column of the times.

    Raises
    ------
    UsageError
        If the mapping names one that is not there, or nothing looks like one.
    """
    if mapping.time.column is not None:
        if mapping.time.column not in names:
            raise UsageError(f"there is no column {mapping.time.column!r} for the time: {_listed(names)}")
        return mapping.time.column
    for wanted in TIME_NAMES:
        for name in names:
            if name.strip().lower() == wanted:
                return name
    raise UsageError(
        f"no column looks like a time: {_listed(names)}; say which in a mapping file ([time] column = …), "
        "which --suggest writes"
    )


def check_columns(names: Sequence[str], mapping: TableMapping) -> None:
    """Make sure that the columns that a mapping names are there.

    Raises
    ------
    UsageError
        If one is not.
    """
    wanted = [mapping.host.column, mapping.instance_column, *mapping.ignore]
    if mapping.long is not None:
        wanted = [mapping.host.column, mapping.instance_column, mapping.long.metric, mapping.long.value]
    else:
        wanted += list(mapping.columns)
    for name in wanted:
        if name is not None and name not in names:
            raise UsageError(f"the mapping names a column {name!r} that is not there: {_listed(names)}")


def times_of(mapping: TableMapping, options: ImportOptions, findings: Findings, form: str) -> Times:
    """Return the parser of a table's times; ``form`` is what they look like, if the mapping says nothing."""
    zone = options.zone or (parse_zone(mapping.time.zone) if mapping.time.zone else None)
    origin = to_ns(parse_time(mapping.time.origin)) if mapping.time.origin else 0
    if options.origin is not None:
        origin = to_ns(options.origin)
    return Times(mapping.time.format or form, zone, findings, origin)


def form_of_times(texts: Sequence[str]) -> str:
    """Return what times look like: for numbers of about the present ns, us, ms or s, else ``iso``."""
    for text in texts:
        try:
            number = abs(float(text))
        except ValueError:
            continue
        if len(text.strip()) == 8 and text.strip().isdigit():
            break  # 20261129 is a date
        for unit, size in UNITS_NS.items():
            if 3e8 < number * size / 1e9 < 5e9:
                return unit
        return "s"
    return ISO


def _listed(names: Sequence[str], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"it has {', '.join(names[:most])}{more}"
