"""Jobs as tables, Slurm and Kubernetes tell of them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reveal_core.errors import UsageError
from reveal_core.importing.findings import Findings
from reveal_core.importing.hostlist import MOST_HOSTS, expand_hosts
from reveal_core.importing.job_pods import JOB_LABELS, gone, read_pods
from reveal_core.importing.job_tables import event_time, read_csv, read_sacct
from reveal_core.jobtable import Job

SEEN = datetime(2026, 11, 29, 18, tzinfo=UTC)
LONDON = ZoneInfo("Europe/London")


def names(job: Job) -> list[str]:
    return [one.host for one in job.hosts]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=30, unique=True), st.integers(1, 4))
def test_a_list_of_numbers_is_what_it_was_made_of(numbers: list[int], width: int) -> None:
    ordered = sorted(numbers)
    ranges: list[list[int]] = []
    for number in ordered:
        if (
            ranges
            and number == ranges[-1][1] + 1
            and len(f"{number:0{width}d}") == len(f"{ranges[-1][0]:0{width}d}")
        ):
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    short = ",".join(
        f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in ranges
    )
    found = expand_hosts(f"node[{short}]-ib, login", "t")
    assert found == (*(f"node{number:0{width}d}-ib" for number in ordered), "login")


@settings(max_examples=30)
@given(st.lists(st.from_regex(r"[a-z][a-z0-9.-]{0,9}", fullmatch=True), min_size=1, max_size=9))
def test_names_without_brackets_are_themselves(hosts: list[str]) -> None:
    assert expand_hosts(",".join(hosts), "t") == tuple(dict.fromkeys(hosts))


@given(st.text("ab[]-,0 1", max_size=24))
def test_any_text_is_a_list_or_one_line(text: str) -> None:
    said = ""
    found: tuple[str, ...] = ()
    try:
        found = expand_hosts(text, "t")
    except UsageError as error:
        said = str(error)
    assert bool(found) != bool(said)
    assert not said or (said.startswith("t: ") and "\n" not in said)
    assert not any(set(host) & set("[], ") or not host for host in found)


def test_several_brackets_and_hosts_named_twice() -> None:
    assert expand_hosts("r[1-2]n[09-10],r1n09", "t") == ("r1n09", "r1n10", "r2n09", "r2n10")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no host is named"),
        (" , ", "no host is named"),
        ("n[1", "the brackets of 'n[1' do not fit"),
        ("n1]", "do not fit"),
        ("n[[1]]", "do not fit"),
        ("n[]", "holds no numbers"),
        ("n[a-b]", "holds no numbers"),
        ("n[1-]", "holds no numbers"),
        ("n[3-1]", "runs backwards"),
        ("n 1", "a blank within a name"),
        ("n[1-999999]", f"more than {MOST_HOSTS} hosts"),
        ("n[1-999][1-999]", f"more than {MOST_HOSTS} hosts"),
    ],
)
def test_what_is_no_list_of_hosts(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=f"^t: .*{re.escape(said)}"):
        expand_hosts(text, "t")


def test_times_with_and_without_a_zone() -> None:
    assert event_time("2026-11-29T20:15:00+01:00", None, "t") == datetime(2026, 11, 29, 19, 15, tzinfo=UTC)
    assert event_time("2026-07-01 20:15", LONDON, "t") == datetime(2026, 7, 1, 19, 15, tzinfo=UTC)
    # Clocks go back at 02:00 on 25 October: the order of events tells the passes of that hour apart.
    first = event_time("2026-10-25T01:50", LONDON, "t")
    assert first == datetime(2026, 10, 25, 0, 50, tzinfo=UTC)
    assert event_time("2026-10-25T01:10", LONDON, "t", after=first) == datetime(
        2026, 10, 25, 1, 10, tzinfo=UTC
    )
    assert event_time("2026-10-25T01:55", LONDON, "t", after=first) == datetime(
        2026, 10, 25, 0, 55, tzinfo=UTC
    )


@pytest.mark.parametrize(
    ("text", "zone", "said"),
    [
        ("yesterday", LONDON, "'yesterday' is not a time"),
        ("2026-11-29T20:15", None, "has no zone: say which with --timezone"),
        ("2026-03-29T01:30", LONDON, "clocks in Europe/London skip"),
        ("1026-11-29T20:15Z", None, "before 1971 or after 2199"),
        ("0001-01-01T00:00+14:00", None, "is not a time"),
    ],
)
def test_what_is_no_time(text: str, zone: ZoneInfo | None, said: str) -> None:
    with pytest.raises(UsageError, match=f"^t: .*{said}"):
        event_time(text, zone, "t")


CSV = """\ufeffjob,host,start,end,name,devices\r
17,"n[1-2]",2026-11-29T12:00:00Z,2026-11-29T13:00:00Z,train,0 1\r
\r
17,n3,2026-11-29T12:05:00Z,2026-11-29T13:30:00Z,,\r
18,n4,2026-11-29T12:00:00Z,,,GPU-1;GPU-2\r
19,n5,2026-11-29T12:00:00Z,2026-11-29T12:10:00Z,,\r
19,n6,2026-11-29T12:20:00Z,2026-11-29T12:30:00Z,,\r
"""


def test_a_table() -> None:
    train, running, *twice = read_csv(CSV.removeprefix("\ufeff"), "t.csv", None, SEEN)
    assert (train.id, train.name, train.source, names(train)) == ("17", "train", "csv", ["n1", "n2", "n3"])
    assert (train.start.hour, train.end and train.end.minute) == (12, 30)
    assert [one.devices for one in train.hosts] == [("0", "1"), ("0", "1"), ()]
    assert (running.end, running.seen, running.hosts[0].devices) == (None, SEEN, ("GPU-1", "GPU-2"))
    # The same id twice, one run after the other: a job that was put back and ran again.
    assert [(one.id, names(one)) for one in twice] == [("19", ["n5"]), ("19", ["n6"])]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "t.csv is empty"),
        ("job,host\n", "line 1: there is no column start"),
        ("job,host,start,user\n", "line 1: column 'user' is none of"),
        ("job,host,start,Job\n", "line 1: column job stands twice"),
        ("job,host,start\n1,a\n", "line 2: 2 cells, but 3 columns"),
        ("job,host,start\n1,a,b,c\n", "line 2: 4 cells, but 3 columns"),
        ("job,host,start\n,a,2026-11-29Z\n", "line 2: a job without an id"),
        ("job,host,start\n1,,2026-11-29T12:00Z\n", "line 2: no host is named"),
        ("job,host,start\n1,n[,2026-11-29T12:00Z\n", "line 2: the brackets"),
        ("job,host,start\n1,a,now\n", "line 2: 'now' is not a time"),
        ("job,host,start\n1,a,2026-11-29T12:00\n", "line 2: the time '2026-11-29T12:00' has no zone"),
        (
            "job,host,start,end\n1,a,2026-11-29T12:00Z,2026-11-29T11:00Z\n",
            "line 2: job 1 ends before it starts",
        ),
        ("job,host,start,end\n1,a,2026-11-29T12:00Z,2028-11-29T11:00Z\n", "job 1 lasts for 730 days"),
        ('job,host,start\n1,"a,2026\n', "line 2: unexpected end of data"),
        ('job,host,start\n1,"a"b,2026-11-29T12:00Z\n', "line 2: "),
    ],
)
def test_a_malformed_table_is_one_line(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        read_csv(text, "t.csv", None, SEEN)
    assert str(caught.value).startswith("t.csv")
    assert "\n" not in str(caught.value)


SACCT = """JobID|JobName|NodeList|Start|End|State
4711|train|big|node[01-02]|2026-11-29T12:00:00|2026-11-29T13:00:00|COMPLETED
4712_3|array|node03|2026-11-29T12:00:00|Unknown|RUNNING
4713+0|het|gpu1,gpu2|2026-11-29T12:00:00|2026-11-29T12:30:00|CANCELLED by 1000
4714|waits|None assigned|Unknown|Unknown|PENDING
4715|waits|None assigned|Unknown|Unknown|PENDING
4716|brief|node04|2026-11-29T12:00:00|2026-11-29T12:00:00|FAILED
4711.batch|batch|node01|2026-11-29T12:00:00|2026-11-29T13:00:00|COMPLETED

"""


def test_what_sacct_prints() -> None:
    findings = Findings()
    train, array, het = read_sacct(SACCT, "sacct", UTC, SEEN, findings)
    assert (train.id, train.name, names(train)) == ("4711", "train|big", ["node01", "node02"])
    assert (train.source, train.end) == ("slurm", datetime(2026, 11, 29, 13, tzinfo=UTC))
    assert (array.id, array.end, array.seen) == ("4712_3", None, SEEN)
    assert (het.id, names(het)) == ("4713+0", ["gpu1", "gpu2"])
    assert [(entry["item"], entry["reason"].partition(" (")[0]) for entry in findings.skipped] == [
        ("sacct, line 5, and 1 more", "jobs that never ran on a node"),
        ("sacct, line 7", "jobs that ran for no time"),
        ("sacct, line 8", "steps of jobs, which --allocations leaves out"),
    ]


def test_columns_of_sacct_in_another_order_and_times_with_a_zone() -> None:
    text = "State|End|Start|NodeList|JobName|JobID\r\nRUNNING|Unknown|2026-11-29T12:00:00+0100|n1|a|b|7\r\n"
    (found,) = read_sacct(text, "sacct", None, SEEN, Findings())
    assert (found.id, found.name) == ("7", "a|b")
    assert found.start == datetime(2026, 11, 29, 11, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\n", "sacct is empty"),
        ("JobID|JobName\n", "sacct, line 1: one column NodeList is expected: print it with sacct"),
        (SACCT.replace("|2026-11-29T13:00:00|COMPLETED\n4712", "\n4712"), "line 2: 5 fields, but 6 columns"),
        (SACCT.replace("node[01-02]", "node[01-02"), "line 2: the brackets"),
        (
            SACCT.replace("T12:00:00|Unknown", "T99:00:00|Unknown"),
            "line 3: '2026-11-29T99:00:00' is not a time",
        ),
    ],
)
def test_a_malformed_list_of_sacct_is_one_line(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)):
        read_sacct(text, "sacct", UTC, SEEN, Findings())


def test_times_of_sacct_need_a_zone() -> None:
    with pytest.raises(UsageError, match=r"sacct, line 2: the time .* has no zone"):
        read_sacct(SACCT.replace("|big", ""), "sacct", None, SEEN, Findings())


def pod(
    name: str, node: str | None = "n1", *, start: str = "12:00", end: str | None = None, **labels: str
) -> dict:
    status: dict = {"phase": "Running", "startTime": f"2026-11-29T{start}:00Z"}
    if end is not None:
        done = {"terminated": {"finishedAt": f"2026-11-29T{end}:00Z", "exitCode": 0}}
        status |= {"phase": "Succeeded", "containerStatuses": [{"state": done}]}
    given_ = {label.replace("__", "/").replace("_", "."): value for label, value in labels.items()}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "labels": given_},
        "spec": {"nodeName": node} if node else {},
        "status": status,
    }


def of(name: str) -> dict[str, str]:
    return {"training_kubeflow_org__job-name": name}


def pods(*items: object, labels: tuple[str, ...] = JOB_LABELS) -> tuple[tuple[Job, ...], Findings]:
    findings = Findings()
    text = json.dumps({"kind": "List", "items": list(items)})
    return read_pods(text, "pods.json", labels, SEEN, findings)[0], findings


def test_pods_of_a_job() -> None:
    (train, over), findings = pods(
        pod("train-0", "n1", **of("train")),
        pod("train-1", "n2", start="12:01", **of("train")),
        pod("train-2", "n9", end="12:30", **of("train")),  # its node does other things by now
        pod("over-0", "n3", end="12:40", **of("over")),
        pod("over-1", "n4", end="12:50", **of("over")),
        pod("waits", None, **of("train")),
        pod("web"),
        pod("brief", end="12:00", **of("train")),
    )
    assert (train.id, train.name, train.source) == ("ml/train", "train", "kubernetes")
    assert (names(train), train.end, train.seen) == (["n1", "n2"], None, SEEN)
    assert train.start == datetime(2026, 11, 29, 12, tzinfo=UTC)
    assert (names(over), over.end) == (["n3", "n4"], datetime(2026, 11, 29, 12, 50, tzinfo=UTC))
    assert [entry["reason"].partition(" (")[0] for entry in findings.skipped] == [
        "pods that no node has taken yet",
        "pods that no label names a job of",
        "pods that ran for no time",
    ]


def test_the_label_of_the_whole_goes_before_that_of_a_part() -> None:
    both = {"jobset_sigs_k8s_io__jobset-name": "whole", "batch_kubernetes_io__job-name": "whole-workers-0"}
    (found,), _ = pods(pod("a", **both))
    assert found.name == "whole"
    (found,), _ = pods(pod("a", **both), labels=("batch.kubernetes.io/job-name",))
    assert found.name == "whole-workers-0"


def test_an_evicted_pod_and_one_pod_alone() -> None:
    evicted = pod("a", **of("train"))
    evicted["status"]["phase"] = "Failed"
    (found,), _ = pods(evicted)
    assert found.end == SEEN
    (alone,), namespaces = read_pods(json.dumps(pod("a", **of("x"))), "p", JOB_LABELS, SEEN, Findings())
    assert (alone.id, namespaces) == ("ml/x", frozenset())


def test_jobs_whose_pods_are_gone_were_over_when_they_were_last_seen() -> None:
    text = json.dumps({"items": [pod("a", **of("one")), pod("b", **of("other"))]})
    (one, other), namespaces = read_pods(text, "p", JOB_LABELS, SEEN, Findings())
    assert namespaces == {"ml"}
    elsewhere = replace(one, id="web/one")
    of_slurm = replace(one, id="ml/batch", source="slurm")
    (found,) = gone([one, other, elsewhere, of_slurm], [other], namespaces)
    assert (found.id, found.end, found.seen) == ("ml/one", SEEN, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "p is no JSON"),
        ("[]", "p is no list of pods"),
        ('{"kind": "List"}', "p is no list of pods"),
        ('{"items": [1]}', "p, item 1: a Pod is expected, not a int"),
        ('{"items": [{"kind": "Node"}]}', "p, item 1: a Pod is expected, not a Node"),
        ('{"items": [{"kind": "Pod"}]}', "p, item 1: it has no metadata.name"),
        ('{"items": [{"kind": "Pod", "metadata": 3}]}', "p, item 1: metadata is no table"),
    ],
)
def test_what_is_no_list_of_pods(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=re.escape(said)) as caught:
        read_pods(text, "p", JOB_LABELS, SEEN, Findings())
    assert "\n" not in str(caught.value)


def test_a_pod_whose_time_is_none() -> None:
    with pytest.raises(UsageError, match=r"pods.json, item 1 \(a\): .* is not a time"):
        pods(pod("a", start="late", **of("train")))
