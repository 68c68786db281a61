"""A BfRuntime client for packet tests, which takes names of the schema and can undo what it wrote."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import grpc
from google.rpc import code_pb2, status_pb2

from alfirk_ptf.bfrt.messages import Stub, message
from alfirk_ptf.bfrt.schema import BfRtError, Match, TableSchema, Value, find, parse
from alfirk_ptf.p4runtime import TIMEOUT
from alfirk_ptf.stream import open_stream

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Settings of the channel: schemas and programs are long, and errors of batches are in the trailers.
_CHANNEL_OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_metadata_size", 16 << 20))
#: Pipe, direction and parser that stand for all.
_ALL_PIPES, _ALL = 0xFFFF, 0xFF
_NO_DATA: Mapping[str, Value] = MappingProxyType({})

#: A key by names; or the value of the only key field.
Key = Mapping[str, Match] | int


@dataclass(frozen=True)
class Entry:
    """An entry of a table, or a cell of an array. Entries that are read have full names."""

    key: Mapping[str, Match]
    #: `None` if the table has no actions.
    action: str | None = None
    data: Mapping[str, Value] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Value:
        """Return the value of a data field, by its full name or the unique last part."""
        return self.data[find(map(_Name, self.data), name, "the entry", "data field").name]


@dataclass(frozen=True)
class _Name:
    name: str


class BfRtClient:
    """A client of one switch, bound to its program.

    It remembers how each write is undone; :meth:`undo` does that, newest first.
    """

    def __init__(self, address: str, device_id: int = 0, client_id: int = 1) -> None:
        self._device_id, self._client_id = device_id, client_id
        self._channel = grpc.insecure_channel(address, options=_CHANNEL_OPTIONS)
        self._stub = Stub(self._channel)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._subscribed: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._undo: list[list[Any]] = []
        self._subscribe()
        self._config, self._tables = self._pipeline()
        self._set_pipeline("BIND", message("ForwardingPipelineConfig")(p4_name=self.program))

    def close(self) -> None:
        """End the session."""
        self._requests.put(None)
        self._channel.close()

    @property
    def program(self) -> str:
        """Name of the program."""
        return str(self._config.p4_name)

    def table(self, name: str) -> Table:
        """Return a table by its full name, or the unique last part: `routes` of `pipe.Ingress.routes`."""
        return Table(self, find(self._tables, name, f"program {self.program}", "table"))

    @property
    def tables(self) -> list[str]:
        """Full names of all tables."""
        return [table.name for table in self._tables]

    def reload(self) -> None:
        """Load the program again: without entries, registers and counters as at the start."""
        self._set_pipeline("VERIFY_AND_WARM_INIT_BEGIN_AND_END", self._config)
        self._undo.clear()

    def mark(self) -> int:
        """Return the present state, for :meth:`undo`."""
        return len(self._undo)

    def undo(self, mark: int = 0) -> None:
        """Undo what was written since the mark, newest first."""
        undone = self._undo[mark:][::-1]
        del self._undo[mark:]
        if updates := [update for batch in undone for update in batch]:
            self._send(updates, "undo")

    # Session and pipeline.

    def _subscribe(self) -> None:
        def take(answer: Any) -> None:
            if answer.HasField("subscribe"):
                self._subscribed.put(answer.subscribe)

        open_stream(self._stub.StreamChannel, self._requests, take)
        request = message("StreamMessageRequest")(client_id=self._client_id)
        request.subscribe.device_id = self._device_id
        self._requests.put(request)
        try:
            status = self._subscribed.get(timeout=TIMEOUT).status
        except queue.Empty:
            msg = f"no reply to the subscription within {TIMEOUT:.0f} s"
            raise BfRtError(msg) from None
        if status.code != code_pb2.OK:
            msg = f"the switch rejected the subscription: {status.message or status.code}"
            raise BfRtError(msg)

    def _pipeline(self) -> tuple[Any, list[TableSchema]]:
        """Read the program and the schemas of the program and of the device."""
        request = message("GetForwardingPipelineConfigRequest")(
            device_id=self._device_id, client_id=self._client_id
        )
        answer = self._call("GetForwardingPipelineConfig", request, "GetForwardingPipelineConfig")
        if not answer.config:
            msg = "the switch has no program with a BfRuntime schema"
            raise BfRtError(msg)
        config = answer.config[0]
        tables = parse(config.bfruntime_info)
        if answer.non_p4_config.bfruntime_info:
            tables += parse(answer.non_p4_config.bfruntime_info)
        return config, tables

    def _set_pipeline(self, action: str, config: Any) -> None:
        kind = message("SetForwardingPipelineConfigRequest")
        request = kind(
            device_id=self._device_id,
            client_id=self._client_id,
            action=kind.Action.Value(action),
            config=[config],
        )
        self._call("SetForwardingPipelineConfig", request, action)

    # Requests of tables.

    def write(self, kind: str, entries: list[Any], what: str) -> None:
        """Write table entries in one batch: all, or none if one is rejected."""
        self._send([_update(kind, entry) for entry in entries], what)

    def remember(self, kind: str, entries: list[Any]) -> None:
        """Record the writes that undo the last one, in the order in which they are executed."""
        self._undo.append([_update(kind, entry) for entry in entries])

    def read(self, wanted: Any, what: str) -> list[Any]:
        """Read table entries."""
        request = message("ReadRequest")(
            target=self._target(), client_id=self._client_id, p4_name=self.program
        )
        request.entities.add().table_entry.CopyFrom(wanted)
        request.entities[0].table_entry.table_flags.from_hw = True
        request.entities[0].table_entry.entry_tgt.CopyFrom(self._target())
        try:
            answers = list(self._stub.Read(request, timeout=TIMEOUT))
        except grpc.RpcError as error:
            raise explained(what, error) from error
        return [entity.table_entry for answer in answers for entity in answer.entities]

    def _send(self, updates: list[Any], what: str) -> None:
        kind = message("WriteRequest")
        request = kind(
            target=self._target(),
            client_id=self._client_id,
            p4_name=self.program,
            atomicity=kind.ROLLBACK_ON_ERROR,
            updates=updates,
        )
        for update in request.updates:
            update.entity.table_entry.entry_tgt.CopyFrom(self._target())
        self._call("Write", request, what)

    def _call(self, method: str, request: Any, what: str) -> Any:
        try:
            return getattr(self._stub, method)(request, timeout=TIMEOUT)
        except grpc.RpcError as error:
            raise explained(what, error) from error

    def _target(self) -> Any:
        return message("TargetDevice")(
            device_id=self._device_id, pipe_id=_ALL_PIPES, direction=_ALL, prsr_id=_ALL
        )


class Table:
    """A table of the program: a match-action table, an action profile or selector, or an array of cells.

    A key is a mapping from names of key fields to values, or the value of the only key field. Entries of
    ternary and range tables have the key field `$MATCH_PRIORITY`, 0 by default; the smallest number wins.
    """

    def __init__(self, client: BfRtClient, schema: TableSchema) -> None:
        self._client, self.schema = client, schema

    @property
    def name(self) -> str:
        """Full name."""
        return self.schema.name

    def add(self, key: Key, action: str | None = None, data: Mapping[str, Value] = _NO_DATA) -> None:
        """Insert an entry, or write a cell."""
        self.add_all([Entry(self._by_names(key), action, data)])

    def add_all(self, entries: Iterable[Entry]) -> None:
        """Insert entries in one batch: all, or none if one is rejected."""
        built = [self._entry(entry.key, entry.action, entry.data) for entry in entries]
        if self.schema.has_cells:
            self._modify(built, f"write {self.name}")
            return
        self._client.write("INSERT", built, f"add to {self.name}")
        self._client.remember("DELETE", [self._without_data(entry) for entry in built[::-1]])

    def modify(self, key: Key, action: str | None = None, data: Mapping[str, Value] = _NO_DATA) -> None:
        """Change the action or data of an entry, or write a cell."""
        self._modify([self._entry(self._by_names(key), action, data)], f"modify {self.name}")

    def delete(self, key: Key) -> None:
        """Delete an entry."""
        wanted, what = self._entry(self._by_names(key), None, {}), f"delete from {self.name}"
        old = self._client.read(wanted, what)
        self._client.write("DELETE", [wanted], what)
        self._client.remember("INSERT", old)

    def get(self, key: Key) -> Entry:
        """Read an entry or a cell."""
        wanted = self._entry(self._by_names(key), None, {})
        (found,) = self._client.read(wanted, f"get from {self.name}")
        return self._as_entry(found)

    def entries(self) -> list[Entry]:
        """Read all entries, without the default entry; of an array, all cells."""
        return [self._as_entry(found) for found in self._all()]

    def clear(self) -> None:
        """Delete all entries; reset all cells."""
        before = self._all()
        self._client.write("DELETE", [self._named()], f"clear {self.name}")
        after = self._all()
        changed = [entry for entry in before if entry not in after]
        self._client.remember("MODIFY" if self.schema.has_cells else "INSERT", changed)

    def set_default(self, action: str | None, data: Mapping[str, Value] = _NO_DATA) -> None:
        """Set the default entry."""
        entry = self._default()
        entry.data.CopyFrom(self.schema.encode_data(action, data))
        self._write_default("MODIFY", entry, f"set_default of {self.name}")

    def reset_default(self) -> None:
        """Set the default entry to that of the program."""
        self._write_default("DELETE", self._default(), f"reset_default of {self.name}")

    def default(self) -> Entry:
        """Read the default entry."""
        (found,) = self._client.read(self._default(), f"default of {self.name}")
        return self._as_entry(found)

    # Building requests.

    def _by_names(self, key: Key) -> Mapping[str, Match]:
        if not isinstance(key, int):
            return key
        names = [field.name for field in self.schema.keys]
        if len(names) != 1:
            known = ", ".join(names) or "none"
            msg = f"table {self.name}: expected values of the key fields ({known}), found {key}"
            raise BfRtError(msg)
        return {names[0]: key}

    def _named(self) -> Any:
        return message("TableEntry")(table_id=self.schema.number)

    def _default(self) -> Any:
        entry = self._named()
        entry.is_default_entry = True
        return entry

    def _entry(self, key: Mapping[str, Match], action: str | None, data: Mapping[str, Value]) -> Any:
        if self.schema.is_match_action and not self.schema.keys:
            msg = f"table {self.name} has no key: use set_default and default"
            raise BfRtError(msg)
        entry = self._named()
        if self.schema.keys:
            entry.key.CopyFrom(self.schema.encode_key(key))
        if action is not None or data:
            entry.data.CopyFrom(self.schema.encode_data(action, data))
        return entry

    def _modify(self, entries: list[Any], what: str) -> None:
        """Write entries or cells that exist."""
        old = [found for entry in entries for found in self._client.read(self._without_data(entry), what)]
        self._client.write("MODIFY", entries, what)
        self._client.remember("MODIFY", old[::-1])

    def _write_default(self, kind: str, entry: Any, what: str) -> None:
        try:
            old = self._client.read(self._default(), what)
        except BfRtError as error:
            if error.code != "NOT_FOUND":
                raise
            old = []
        self._client.write(kind, [entry], what)
        if old:
            self._client.remember("MODIFY", old)
        else:
            self._client.remember("DELETE", [self._default()])

    def _without_data(self, entry: Any) -> Any:
        bare = message("TableEntry")()
        bare.CopyFrom(entry)
        bare.ClearField("data")
        return bare

    def _all(self) -> list[Any]:
        return self._client.read(self._named(), f"entries of {self.name}")

    def _as_entry(self, found: Any) -> Entry:
        action, data = self.schema.decode_data(found.data)
        return Entry(self.schema.decode_key(found.key), action, data)


def _update(kind: str, entry: Any) -> Any:
    update = message("Update")(type=message("Update").Type.Value(kind))
    update.entity.table_entry.CopyFrom(entry)
    return update


def explained(what: str, error: Any) -> BfRtError:
    """Return an error with the errors of the entries of a batch, from the details of the status."""
    code = error.code().name
    lines: list[str] = []
    for name, value in error.trailing_metadata() or ():
        if name != "grpc-status-details-bin":
            continue
        details = status_pb2.Status.FromString(value).details
        for number, detail in enumerate(details, start=1):
            own = message("Error")()
            if detail.Unpack(own) and own.canonical_code != code_pb2.OK:
                own_code = code_pb2.Code.Name(own.canonical_code)
                if not lines:
                    code = own_code
                place = f"entry {number}: " if len(details) > 1 else ""
                lines.append(f"{place}{own_code}: {own.message}")
    text = "; ".join(lines) or f"{code}: {error.details()}"
    return BfRtError(f"{what}: {text}", code)
