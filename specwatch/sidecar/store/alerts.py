"""Alert states, silences, and messages on their way: what lets a restart repeat no message and lose none.

Contents are JSON, names in it too: what a name may hold, such as half of a surrogate pair, is more than a column takes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from specwatch.alerting.delivery import DEAD_LETTERS, DeadLetter, Message, Outcome, Threads
from specwatch.alerting.notification import Notification
from specwatch.alerting.silences import Silence

TABLES = (
    "CREATE TABLE alert_state (target TEXT PRIMARY KEY, alerts TEXT NOT NULL)",
    "CREATE TABLE alert_seen (one INTEGER PRIMARY KEY CHECK (one = 1), at REAL NOT NULL)",
    "CREATE TABLE silence (id TEXT PRIMARY KEY, ends_at REAL NOT NULL, content TEXT NOT NULL)",
    "CREATE TABLE outbox (id INTEGER PRIMARY KEY, receiver TEXT NOT NULL, at REAL NOT NULL, content TEXT NOT NULL)",
    "CREATE TABLE thread (receiver TEXT, incident TEXT, content TEXT NOT NULL, PRIMARY KEY (receiver, incident))",
    "CREATE TABLE dead_letter (id INTEGER PRIMARY KEY, receiver TEXT NOT NULL, content TEXT NOT NULL)",
)


@dataclass(frozen=True)
class KeptAlert:
    """An alert on a target that is pending, fires, or is over and was not yet told as over. Times are Unix seconds."""

    alert: str
    model: str
    state: str
    since: float
    value: float = field(compare=False)
    at: float = field(compare=False)
    """When this was so; value and time alone are no reason to write it down again."""
    incident: str | None
    """Key under which it was told as firing; None where nobody was told."""
    ending: str | None = None
    """Why it is over."""


States = Mapping[str, Sequence[KeptAlert]]
"""By target."""


@dataclass
class Changes:
    """What is to be written down in one transaction, before its messages go out."""

    states: dict[str, Sequence[KeptAlert]] = field(default_factory=dict)
    """All alerts of those targets; none: the target is forgotten."""
    messages: list[Message] = field(default_factory=list)


@dataclass(frozen=True)
class Kept:
    """Everything that is kept of alerting."""

    states: States
    silences: Sequence[Silence]
    messages: Sequence[Message]
    """Not settled, in order."""
    threads: Threads = field(default_factory=dict)
    dead_letters: Sequence[DeadLetter] = ()
    """The latest last."""
    seen_at: float = 0.0
    """When alerts were last judged, to half a minute."""


def apply(changes: Changes, at: float, connection: sqlite3.Connection) -> None:
    """Write down what changed, and let go of silences that have ended."""
    _put_states(changes.states, connection)
    _put_messages(changes.messages, connection)
    connection.execute("DELETE FROM silence WHERE ends_at <= ?", (at,))
    connection.execute("INSERT OR REPLACE INTO alert_seen VALUES (1, ?)", (at,))


def replace_all(kept: Kept, connection: sqlite3.Connection) -> None:
    """Write everything anew but dead letters: what is there may be damaged, or older."""
    for table in ("alert_state", "silence", "outbox", "thread"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 (the names are the ones above)
    for silence in kept.silences:
        add_silence(silence, connection)
    for (receiver, incident), thread in kept.threads.items():
        connection.execute("INSERT INTO thread VALUES (?, ?, ?)", (receiver, incident, thread))
    apply(Changes(dict(kept.states), list(kept.messages)), kept.seen_at, connection)


def settle(message: Message, outcome: Outcome, connection: sqlite3.Connection) -> None:
    """Keep a message no longer; what was given up is kept as such, the last DEAD_LETTERS of each receiver."""
    connection.execute("DELETE FROM outbox WHERE id = ?", (message.id,))
    if outcome.dead is not None:
        _bury(outcome.dead, connection)
    incident = (message.receiver, message.notification.key)
    connection.execute("DELETE FROM thread WHERE receiver = ? AND incident = ?", incident)
    if outcome.thread is not None:
        connection.execute("INSERT INTO thread VALUES (?, ?, ?)", (*incident, outcome.thread))


def _bury(dead: DeadLetter, connection: sqlite3.Connection) -> None:
    content = json.dumps(asdict(dead))
    connection.execute("INSERT INTO dead_letter (receiver, content) VALUES (?, ?)", (dead.receiver, content))
    connection.execute(
        "DELETE FROM dead_letter WHERE receiver = ? AND id NOT IN "
        "(SELECT id FROM dead_letter WHERE receiver = ? ORDER BY id DESC LIMIT ?)",
        (dead.receiver, dead.receiver, DEAD_LETTERS),
    )


def add_silence(silence: Silence, connection: sqlite3.Connection) -> None:
    """Keep a silence."""
    content = json.dumps(asdict(silence))
    connection.execute("INSERT INTO silence VALUES (?, ?, ?)", (silence.id, silence.ends_at, content))


def remove_silence(silence_id: str, connection: sqlite3.Connection) -> None:
    """Keep one no longer."""
    connection.execute("DELETE FROM silence WHERE id = ?", (silence_id,))


def load(connection: sqlite3.Connection) -> Kept:
    """Everything."""
    rows = connection.execute
    return Kept(
        states={
            json.loads(target): [KeptAlert(**entry) for entry in json.loads(alerts)]
            for target, alerts in rows("SELECT target, alerts FROM alert_state")
        },
        silences=[Silence(**json.loads(content)) for (content,) in rows("SELECT content FROM silence")],
        messages=[
            Message(number, receiver, Notification.decoded(content), at)
            for number, receiver, at, content in rows("SELECT id, receiver, at, content FROM outbox ORDER BY id")
        ],
        threads={
            (receiver, incident): content
            for receiver, incident, content in rows("SELECT receiver, incident, content FROM thread")
        },
        dead_letters=[
            DeadLetter(**json.loads(content)) for (content,) in rows("SELECT content FROM dead_letter ORDER BY id")
        ],
        seen_at=next((at for (at,) in rows("SELECT at FROM alert_seen")), 0.0),
    )


def _put_states(states: States, connection: sqlite3.Connection) -> None:
    for target, alerts in states.items():
        name = json.dumps(target)
        if alerts:
            content = json.dumps([asdict(alert) for alert in alerts])
            connection.execute("INSERT OR REPLACE INTO alert_state VALUES (?, ?)", (name, content))
        else:
            connection.execute("DELETE FROM alert_state WHERE target = ?", (name,))


def _put_messages(messages: Iterable[Message], connection: sqlite3.Connection) -> None:
    connection.executemany(
        "INSERT OR REPLACE INTO outbox VALUES (?, ?, ?, ?)",
        [(message.id, message.receiver, message.at, message.notification.encoded()) for message in messages],
    )
