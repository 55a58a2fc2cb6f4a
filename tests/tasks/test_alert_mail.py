"""A notice by e-mail, to a real SMTP server on loopback."""

from __future__ import annotations

from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from email.policy import default
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from incident_samples import NOON, incident_at

from reveal_core.attribute.tracking import follow
from reveal_core.ledger import Ledger
from tasks.channels import make_channels


class Inbox:
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.messages: list[Message] = []

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        self.messages.append(message_from_bytes(envelope.content, policy=default))
        return "250 OK"


@pytest.fixture
def inbox() -> Iterator[tuple[Inbox, int]]:
    from reveal_core.lab.processes import free_port

    kept = Inbox()
    port = free_port()
    controller = Controller(kept, hostname="127.0.0.1", port=port)
    controller.start()
    yield kept, port
    controller.stop()


def test_a_notice_by_mail(inbox: tuple[Inbox, int]) -> None:
    kept, port = inbox
    one = incident_at(0, 5)
    (entry,) = follow(Ledger("node-1"), [one], NOON, one.end).entries
    notice = {
        "status": "firing",
        "title": "Packet loss on node-1",
        "entries": [{**entry.to_dict(), "incident": one.to_dict()}],
        "fleet": None,
        "report": "",
    }
    address = f"mailto://127.0.0.1:{port}?from=reveal@example.org&to=ops@example.org&mode=insecure"
    (channel,) = make_channels({"notify": [address]})
    channel.send(notice)
    (message,) = kept.messages
    assert message["Subject"] == "Reveal: Packet loss on node-1"
    assert "ops@example.org" in message["To"]
    text = message.get_body(("plain",)).get_content()  # type: ignore[attr-defined]
    assert "segments were sent again: 310 /s, normally 0 to 2 /s" in text
    assert "What to do: Find the hop that drops." in text
