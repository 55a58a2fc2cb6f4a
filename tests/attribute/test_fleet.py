"""The same trouble on several hosts is one incident of the fleet."""

from __future__ import annotations

from incident_samples import at, incident_at

from reveal_core.attribute.fleet import common_name, fleet_incidents

RACKS = [f"rack-{rack}-node-{node:02d}" for rack in range(1, 5) for node in range(14)]


def test_the_same_on_every_host_of_a_rack() -> None:
    seventh = [host for host in RACKS if host.startswith("rack-3-")]
    incidents = [incident_at(n, n + 30, host=host, score=n) for n, host in enumerate(seventh)]
    incidents.append(incident_at(5, 20, "cpu-quota", host=RACKS[0]))
    (one,) = fleet_incidents(reversed(incidents), RACKS)
    assert one.hosts == tuple(seventh)
    assert (one.where, one.of_hosts) == ("rack-3-node-*", 56)
    assert (one.cause, one.title, one.subsystem) == ("packet-loss", "Packet loss", "network")
    assert (one.start, one.end) == (at(0), at(43))
    assert one.incidents == tuple(i.id for i in incidents[:-1])
    assert one.id == f"fleet-{incidents[0].id}"


def test_later_members_do_not_change_its_name() -> None:
    early = [incident_at(n, n + 5, host=host) for n, host in enumerate(RACKS[:3])]
    more = [*early, incident_at(40, 45, host=RACKS[3])]
    assert fleet_incidents(early, RACKS)[0].id == fleet_incidents(more, RACKS)[0].id


def test_two_hosts_at_once_may_be_chance_in_a_large_fleet() -> None:
    pair = [incident_at(n, n + 5, host=host) for n, host in enumerate(RACKS[:2])]
    assert fleet_incidents(pair, RACKS) == ()
    assert len(fleet_incidents(pair, RACKS[:4])) == 1


def test_a_host_that_is_struck_often_is_no_fleet() -> None:
    assert fleet_incidents([incident_at(n, n + 1) for n in range(0, 50, 10)], ["node-1", "node-2"]) == ()


def test_what_began_apart_or_differs_is_apart() -> None:
    apart = [incident_at(n * 100, n * 100 + 5, host=host) for n, host in enumerate(RACKS[:3])]
    assert fleet_incidents(apart, RACKS) == ()
    kinds = [incident_at(0, 5, cause, host=host) for cause, host in zip("abc", RACKS, strict=False)]
    assert fleet_incidents(kinds, RACKS) == ()


def test_without_a_cause_the_foremost_metric_tells_the_kind() -> None:
    unknown = [incident_at(0, 5, "", host=host, metric="disk.await") for host in RACKS[:3]]
    (one,) = fleet_incidents(unknown, RACKS)
    assert (one.cause, one.title) == ("", "Unusual: time per disk request")


def test_names_that_tell_struck_hosts_from_others() -> None:
    assert common_name(["gpu01", "gpu02"], ["gpu01", "gpu02", "gpu03"]) == ""
    assert common_name(["row-a/n1", "row-a/n2"], ["row-a/n1", "row-a/n2", "row-b/n1"]) == "row-a/*"
    assert common_name(["a.dc1", "b.dc1"], ["a.dc1", "b.dc1", "c.dc2"]) == ""
    assert common_name([RACKS[0], RACKS[1]], RACKS) == ""
