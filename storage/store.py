"""The store: the one class through which everything is read and written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from reveal_core.incidents import Incident
from reveal_core.segment import Segment
from storage.backend import Backend
from storage.layout import segment_key

# What reads tables is imported where it is used: an agent that only writes segments must not pay for Polars.
if TYPE_CHECKING:
    import polars as pl

    from reveal_core.alerts import AlertState
    from reveal_core.arrivals import Arrival, Watermark
    from reveal_core.importing.covered import ImportRecord
    from reveal_core.jobtable import Job
    from reveal_core.labels import Label
    from reveal_core.ledger import Entry, Ledger
    from reveal_core.regimes import Regime
    from reveal_core.scores import Scores
    from reveal_core.silences import Silence
    from reveal_core.work import Work
    from storage.decode import Columns
    from storage.telemetry import TelemetryRead


class Store:
    """Telemetry, scores, incidents and reports below one root URL.

    One agent writes the segments of a host, and a segment spans at most an hour. Every file is written
    atomically, and writing one twice is harmless. Nothing is cached: a store that others write to shows what
    they wrote.

    Parameters
    ----------
    url
        A local folder (``./reveal-data``), or a URL that fsspec knows (``s3://bucket/prefix``, ``gs://``,
        ``az://``).
    storage_options
        Passed to the fsspec file system. Without, its standard configuration holds (``AWS_ENDPOINT_URL``,
        ``FSSPEC_S3_KEY`` …).

    Raises
    ------
    UnavailableError
        If the scheme is not known, or needs a package that is not installed. Every method raises it if the
        store cannot be reached or a permission is missing.
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any] | None = None) -> None:
        self.backend = Backend(url, storage_options)

    @property
    def url(self) -> str:
        """The root: an absolute path for a local folder, the URL for anything else."""
        return self.backend.url

    def check(self, write: bool = False) -> None:
        """Make sure that the store can be reached and, with ``write``, written.

        A local folder that does not exist is made with ``write``, and not available without.

        Raises
        ------
        UnavailableError
            If not; one line with the reason.
        """
        self.backend.check(write)

    def put_segment(self, segment: Segment) -> str:
        """Store a segment; return its key, which (start, boot, sequence) and the host determine."""
        key = segment_key(segment.host, segment.start, segment.boot, segment.sequence)
        self.backend.write(key, segment.data)
        return key

    def hosts(self, start: datetime | None = None, end: datetime | None = None) -> list[str]:
        """Return the hosts that have telemetry in [``start``, ``end``), sorted.

        Whether a segment in the range can be read is not looked at.
        """
        from storage.hosts import hosts

        return hosts(self.backend, start, end)

    def extent(self, host: str) -> tuple[datetime, datetime] | None:
        """Return from when to when a host has telemetry; None if it has none.

        The end lies just (at most 1 µs) after the last sample, so ``read_telemetry(host, *extent)`` reads
        everything.
        """
        from storage.hosts import extent

        return extent(self.backend, host)

    def extents(self, hosts: Sequence[str]) -> list[tuple[datetime, datetime] | None]:
        """Return from when to when each of some hosts has telemetry, as `extent` does."""
        from storage.hosts import extents

        return extents(self.backend, hosts)

    def read_telemetry(
        self, host: str, start: datetime, end: datetime, columns: Columns | None = None
    ) -> TelemetryRead:
        """Return one host's samples of [``start``, ``end``).

        Parameters
        ----------
        host
            Its exact name.
        start, end
            Aware times.
        columns
            Channels to read by their names, or by a function that chooses among names; every one if not
            given. Those that no segment holds are left out. ``ts`` and ``mono`` are always read.

        Returns
        -------
        TelemetryRead
            The union of the segments' channels, null where a segment lacks one; one row for each time,
            sorted. Counters are ``Int64``. A channel of integers in some segments and fractions in others
            becomes ``Float64``, with a note. A file that cannot be read is moved to quarantine and named.

        Raises
        ------
        UsageError
            If the store is empty, does not know the host, or has nothing of it in the range: the line says
            what there is.
        """
        from storage.telemetry import read_telemetry

        return read_telemetry(self.backend, host, start, end, columns)

    def ask_dense(self, host: str, until: datetime) -> str:
        """Ask a host's agent to sample as densely as it can until then; return the key.

        An agent whose interval follows the host (`reveal_core.collect.adaptive`) does so after its next
        segment; others cannot.
        """
        from storage.requests import ask_dense

        return ask_dense(self.backend, host, until)

    def dense_until(self, host: str) -> datetime | None:
        """Return until when a host was asked to sample densely; None if it never was."""
        from storage.requests import dense_until

        return dense_until(self.backend, host)

    def arrivals(
        self, pattern: str, since: datetime, until: datetime, watermarks: Mapping[str, Watermark]
    ) -> dict[str, list[Arrival]]:
        """Return the segments that begin in [``since``, ``until``), by host, of hosts whose name matches.

        What ``watermarks`` do not hold is marked as new.
        """
        from storage.arrivals import arrivals

        return arrivals(self.backend, pattern, since, until, watermarks)

    def watermarks(self) -> dict[str, Watermark]:
        """Return how far each host's telemetry has been judged by runs that judge what is new."""
        from storage.arrivals import read_watermarks

        return read_watermarks(self.backend)

    def put_watermarks(self, watermarks: Mapping[str, Watermark]) -> str:
        """Store how far hosts have been judged; return the key.

        Of two writers at once one is lost: what it had judged is judged again, which changes nothing.
        """
        from storage.arrivals import put_watermarks

        return put_watermarks(self.backend, watermarks)

    def put_scores(self, model: str, scores: Scores) -> list[str]:
        """Store the scores that a model (``<name>@<version>``) gave; return the keys, one an hour.

        A window that is stored already is replaced, others stay. Two writers of the same model, host and
        hour must not write at once.
        """
        from storage.scores import put_scores

        return put_scores(self.backend, model, scores)

    def read_scores(self, model: str, host: str, start: datetime, end: datetime) -> Scores | None:
        """Return the stored scores of windows that begin in [``start``, ``end``); None if there are none."""
        from storage.scores import read_scores

        return read_scores(self.backend, model, host, start, end)

    def read_past(self, name: str, host: str, start: datetime, end: datetime) -> pl.DataFrame:
        """Return what every version of a registered model said of a host's windows in [``start``, ``end``).

        Returns
        -------
        polars.DataFrame
            ``start``, ``coverage``, ``fused``, ``threshold`` and ``version`` by start; of a window that
            several versions scored, what the newest said. Scores of different versions are comparable: they
            are -ln of tail probabilities.
        """
        from storage.scores import read_past

        return read_past(self.backend, name, host, start, end)

    def read_judged(self, hosts: Sequence[str], start: datetime, end: datetime) -> dict[str, pl.DataFrame]:
        """Return what models said of the windows of hosts that begin in [``start``, ``end``), by host.

        Returns
        -------
        dict
            Of each host that was judged ``start``, ``end``, ``coverage``, ``fused`` and ``threshold`` by
            start: as the registered model has them that judged its newest window there, of a window that
            several versions scored the newest's.
        """
        from storage.scores import read_judged

        return read_judged(self.backend, hosts, start, end)

    def put_regime(self, regime: Regime) -> str:
        """Store a host's regime in place of the one before; return its key."""
        from storage.regimes import put_regime

        return put_regime(self.backend, regime)

    def read_regime(self, model: str, host: str) -> Regime | None:
        """Return the newest regime of a host by a registered model's name; None if there never was one."""
        from storage.regimes import read_regime

        return read_regime(self.backend, model, host)

    def regimes(self) -> list[Regime]:
        """Return the newest regime of every host that ever had one, by host."""
        from storage.regimes import read_regimes

        return read_regimes(self.backend)

    def put_incident(self, incident: Incident) -> str:
        """Store an incident as JSON, replacing an earlier state of the same; return its key."""
        from storage.incidents import put_incident

        return put_incident(self.backend, incident)

    def read_incidents(self, start: datetime, end: datetime, host: str | None = None) -> list[Incident]:
        """Return the incidents that touch [``start``, ``end``), of one host or of all, sorted by start.

        One that began more than two days before ``start`` is not looked for. Times are exact to the
        millisecond. A file that cannot be read is moved to quarantine.
        """
        from storage.incidents import read_incidents

        return read_incidents(self.backend, start, end, host)

    def ledger(self, host: str) -> Ledger:
        """Return the ledger of a host: what is on, or was lately; an empty one if there is none."""
        from storage.ledgers import read_ledger

        return read_ledger(self.backend, host)

    def ledgers(self, hosts: Sequence[str]) -> list[Ledger]:
        """Return the ledgers of hosts, as `ledger` does."""
        from storage.ledgers import read_ledger

        return self.backend.each(lambda host: read_ledger(self.backend, host), hosts)

    def put_ledger(self, ledger: Ledger, past: Sequence[Entry] = ()) -> str:
        """Store a host's ledger in place of the one before; return its key.

        Parameters
        ----------
        ledger
            Two writers of the same host must not write at once.
        past
            Entries that were taken out of it because they are long over; they are kept by month.
        """
        from storage.ledgers import put_ledger

        return put_ledger(self.backend, ledger, past)

    def ledger_hosts(self) -> list[str]:
        """Return the hosts that have a ledger, sorted."""
        from storage.ledgers import ledger_hosts

        return ledger_hosts(self.backend)

    def read_entries(
        self, hosts: Sequence[str], start: datetime | None = None, end: datetime | None = None
    ) -> list[Entry]:
        """Return the ledger entries of hosts that touch [``start``, ``end``), by first coming."""
        from storage.ledgers import read_entries

        return read_entries(self.backend, hosts, start, end)

    def put_label(self, label: Label) -> str:
        """Store what a person said of an incident, in place of what was said of it before; return the key."""
        from storage.silences import put_label

        return put_label(self.backend, label)

    def labels(self, hosts: Sequence[str] | None = None) -> list[Label]:
        """Return what was said of the incidents of hosts, of all if not given, in the order of saying."""
        from storage.silences import label_hosts, read_labels

        return read_labels(self.backend, label_hosts(self.backend) if hosts is None else hosts)

    def put_silence(self, silence: Silence) -> str:
        """Store a silence, replacing one of the same id; return its key."""
        from storage.silences import put_silence

        return put_silence(self.backend, silence)

    def silences(self) -> list[Silence]:
        """Return every silence, past ones too, by start."""
        from storage.silences import read_silences

        return read_silences(self.backend)

    def imports(self, host: str) -> tuple[ImportRecord, ...]:
        """Return what was imported of a host from servers, by source."""
        from storage.imports import read_imports

        return read_imports(self.backend, host)

    def put_import(self, host: str, record: ImportRecord) -> str:
        """Store what was imported of a host from one source, in place of what was known; return the key.

        Two imports of the same host must not run at once.
        """
        from storage.imports import put_import

        return put_import(self.backend, host, record)

    def jobs(self, start: datetime | None = None, end: datetime | None = None) -> list[Job]:
        """Return the jobs that ran at any time of [``start``, ``end``), by start."""
        from storage.jobs import read_jobs

        return read_jobs(self.backend, start, end)

    def put_jobs(self, jobs: Sequence[Job]) -> list[str]:
        """Store jobs beside those that are known; return the keys that were written.

        `reveal_core.jobtable.merged` tells how they are joined. Two imports of jobs must not run at once.
        """
        from storage.jobs import put_jobs

        return put_jobs(self.backend, jobs)

    def stragglers(self) -> dict[str, tuple[str, ...]]:
        """Return which hosts are out of step with their peers at present, and in which jobs."""
        from storage.jobs import read_stragglers

        return read_stragglers(self.backend)

    def put_stragglers(self, stragglers: Mapping[str, Sequence[str]]) -> str:
        """Store which hosts are out of step at present; return the key."""
        from storage.jobs import put_stragglers

        return put_stragglers(self.backend, stragglers)

    def works(self, hosts: Sequence[str]) -> list[Work | None]:
        """Return what is known of what each of some hosts did lately; None where nothing is."""
        from storage.jobs import read_work

        return self.backend.each(lambda host: read_work(self.backend, host), hosts)

    def put_work(self, work: Work) -> str:
        """Store what a host did lately in place of what was known; return the key.

        Of two writers at once one is lost: what it had looked at is looked at again.
        """
        from storage.jobs import put_work

        return put_work(self.backend, work)

    def alert_state(self) -> AlertState:
        """Return what was told of incidents so far."""
        from storage.alerts import read_alert_state

        return read_alert_state(self.backend)

    def put_alert_state(self, state: AlertState) -> str:
        """Store what was told of incidents so far; return the key. Two senders must not write at once."""
        from storage.alerts import put_alert_state

        return put_alert_state(self.backend, state)

    def read_incident(self, incident_id: str) -> Incident | None:
        """Return an incident by its id; None if there is none, or its file was moved to quarantine."""
        from storage.incidents import read_incident

        return read_incident(self.backend, incident_id)

    def put_report(self, report_id: str, html: str, data: Mapping[str, Any]) -> str:
        """Store a report, make it the latest, and name it in the list of reports.

        Parameters
        ----------
        report_id
            Its name; a report of the same name is replaced.
        html
            The page.
        data
            Becomes ``report.json``. ``created``, ``title``, ``headline``, ``start``, ``end`` and the number
            of ``incidents`` show in the list; ``created`` is the present if it is not given. A number that
            is not finite becomes ``null``.

        Returns
        -------
        str
            Local path or URL of the page.
        """
        from storage.reports import put_report

        return put_report(self.backend, report_id, html, data)

    def latest_report(self) -> dict[str, Any]:
        """Return the head of the report stored last, with its ``path`` below ``reports/``.

        Raises
        ------
        UsageError
            If there is none.
        """
        from storage.reports import latest_report

        return latest_report(self.backend)

    def report_path(self, report_id: str) -> str:
        """Return the local path or URL of a report's page, whether or not it is there."""
        from storage.reports import report_path

        return report_path(self.backend, report_id)
