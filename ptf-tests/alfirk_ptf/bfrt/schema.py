"""The BfRuntime schema (bf-rt.json): tables, key fields, actions and data fields by their names.

A name may be the full one, or its last part if no other name ends with it: `routes` of `pipe.Ingress.routes`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from alfirk_ptf.bfrt.messages import message

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

#: A value of a key field: an exact value; or value and prefix length (LPM), value and mask (ternary), low and
#: high bound (range). A number for one of these three is a full prefix, a full mask, or both bounds.
Match = int | tuple[int, int]
#: A value of a data field.
Value = int | bool | float | str | list[int] | list[bool] | list[str]

#: Widths of the types with a fixed width, in bits.
_WIDTHS = {"bool": 1, **{f"{sign}int{bits}": bits for sign in ("u", "") for bits in (8, 16, 32, 64)}}
#: Types of tables whose entries are cells, which always exist.
_ARRAYS = {"Counter", "Meter", "Register", "RegisterParam", "Lpf", "Wred"}


class BfRtError(Exception):
    """A request is wrong, or the switch rejected it, or did not reply."""

    def __init__(self, text: str, code: str = "") -> None:
        super().__init__(text)
        #: Name of the error code of gRPC, such as NOT_FOUND; empty if no request was sent.
        self.code = code


class _Named(Protocol):
    @property
    def name(self) -> str: ...


#: Types of Python.
_Types = tuple[type, ...]
_Any = TypeVar("_Any", bound=_Named)


def find(things: Iterable[_Any], name: str, owner: str, kind: str) -> _Any:
    """Return the thing with a full name, or the only one whose name ends with `name` after a dot."""
    known = list(things)
    for thing in known:
        if thing.name == name:
            return thing
    found = [thing for thing in known if thing.name.endswith(f".{name}")]
    if len(found) == 1:
        return found[0]
    if found:
        msg = f"{owner}: `{name}` is one of several {kind}s: {_listed(found)}; use a full name"
    else:
        msg = f"{owner} has no {kind} `{name}`; valid names: {_listed(known)}"
    raise BfRtError(msg)


def _listed(things: Iterable[_Named]) -> str:
    return ", ".join(thing.name for thing in things) or "none"


@dataclass(frozen=True)
class Type:
    """The type of a field."""

    name: str
    #: Width in bits; 0 for strings and floating-point numbers.
    bits: int
    choices: Sequence[str] = ()

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> Type:
        """Read a type of the schema."""
        name = given["type"]
        return cls(name, given.get("width") or _WIDTHS.get(name, 0), given.get("choices") or ())

    def encode(self, value: object, what: str) -> bytes:
        """Return a number as big-endian bytes in the type's width. `what` names the field in an error."""
        if not isinstance(value, int):
            msg = f"{what}: expected a number of {self.bits} bits, found {value!r}"
            raise BfRtError(msg)
        if value < 0 or value >> self.bits:
            msg = f"{what}: {value:#x} does not fit {self.bits} bits"
            raise BfRtError(msg)
        return int(value).to_bytes(max(1, (self.bits + 7) // 8), "big")


@dataclass(frozen=True)
class KeyField:
    """A field of a key."""

    name: str
    number: int
    match_type: str
    type: Type

    def encode(self, value: Match, table: str) -> Any:
        """Build the message for a value."""
        what = f"table {table}, key field {self.name}"
        field = message("KeyField")(field_id=self.number)
        first, second = self._parts(value, what)
        low = self.type.encode(first, what)
        if self.match_type == "LPM":
            field.lpm.value, field.lpm.prefix_len = low, second
        elif self.match_type == "Ternary":
            field.ternary.value, field.ternary.mask = low, self.type.encode(second, what)
        elif self.match_type == "Range":
            field.range.low, field.range.high = low, self.type.encode(second, what)
        elif self.match_type == "Optional":
            field.optional.value, field.optional.is_valid = low, True
        else:
            field.exact.value = low
        return field

    def _parts(self, value: Match, what: str) -> tuple[int, int]:
        """Return both parts of a value, after a check of their form."""
        pairs = {"LPM": "(value, prefix length)", "Ternary": "(value, mask)", "Range": "(low, high)"}
        pair = pairs.get(self.match_type)
        ones = (1 << self.type.bits) - 1
        if isinstance(value, int):
            return value, {"LPM": self.type.bits, "Ternary": ones}.get(self.match_type, value)
        if pair is None or [type(part) for part in value] != [int, int]:
            forms = f"a number or {pair}" if pair else "a number"
            msg = f"{what}: expected {forms} for {self.match_type.lower()} match, found {value!r}"
            raise BfRtError(msg)
        first, second = value
        if self.match_type == "LPM" and not 0 <= second <= self.type.bits:
            msg = f"{what}: expected a prefix length of 0 to {self.type.bits}, found {second}"
            raise BfRtError(msg)
        if self.match_type == "Range" and first > second:
            msg = f"{what}: the low bound {first:#x} is above the high bound {second:#x}"
            raise BfRtError(msg)
        return first, second

    def decode(self, field: Any) -> Match | None:
        """Return the value in a message; `None` for an optional field that matches any value."""
        kind = field.WhichOneof("match_type")
        found = getattr(field, kind)
        if kind == "lpm":
            return _number(found.value), found.prefix_len
        if kind == "ternary":
            return _number(found.value), _number(found.mask)
        if kind == "range":
            return _number(found.low), _number(found.high)
        if kind == "optional" and not found.is_valid:
            return None
        return _number(found.value)


@dataclass(frozen=True)
class DataField:
    """A data field of a table, or a parameter of an action."""

    name: str
    number: int
    #: `None` for a container, whose values this client does not write or read.
    type: Type | None
    is_repeated: bool

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> DataField:
        """Read a field of the schema."""
        kind = given.get("type")
        return cls(given["name"], given["id"], kind and Type.parse(kind), given["repeated"])

    def encode(self, value: Value, owner: str) -> Any:
        """Build the message for a value."""
        what = f"{owner}, field {self.name}"
        field = message("DataField")(field_id=self.number)
        if self.type is None:
            msg = f"{what}: containers are not supported"
            raise BfRtError(msg)
        if self.is_repeated != isinstance(value, list):
            msg = f"{what}: expected {'a list' if self.is_repeated else 'one value'}, found {value!r}"
            raise BfRtError(msg)
        if isinstance(value, list):
            self._encode_list(field, value, what)
        elif self.type.name == "string":
            field.str_val = self._text(value, what)
        elif self.type.name == "float":
            field.float_val = self._of(value, (int, float), what)
        elif self.type.name == "bool":
            field.bool_val = self._of(value, (bool,), what)
        else:
            field.stream = self.type.encode(value, what)
        return field

    def _encode_list(self, field: Any, values: Sequence[object], what: str) -> None:
        kind = self.type.name if self.type else ""
        if kind == "bool":
            field.bool_arr_val.val.extend(self._of(value, (bool,), what) for value in values)
            field.bool_arr_val.SetInParent()
        elif kind == "string":
            field.str_arr_val.val.extend(self._text(value, what) for value in values)
            field.str_arr_val.SetInParent()
        else:
            field.int_arr_val.val.extend(self._of(value, (int,), what) for value in values)
            field.int_arr_val.SetInParent()

    def _text(self, value: object, what: str) -> str:
        choices = self.type.choices if self.type else ()
        text: str = self._of(value, (str,), what)
        if choices and text not in choices:
            msg = f"{what}: expected one of {', '.join(choices)}, found {text!r}"
            raise BfRtError(msg)
        return text

    def _of(self, value: object, types: _Types, what: str) -> Any:
        """Return a value that has one of these types."""
        if not isinstance(value, types):
            expected = self.type.name if self.type else ""
            msg = f"{what}: expected a {expected}, found {value!r}"
            raise BfRtError(msg)
        return value

    def decode(self, field: Any) -> Value | None:
        """Return the value in a message; `None` for a container."""
        kind = field.WhichOneof("value")
        if kind == "stream":
            return _number(field.stream)
        if kind in {"int_arr_val", "bool_arr_val", "str_arr_val"}:
            return list(getattr(field, kind).val)
        value: Value | None = getattr(field, kind) if kind else None
        return value


@dataclass(frozen=True)
class ActionSpec:
    """An action of a table."""

    name: str
    number: int
    params: Sequence[DataField]


@dataclass(frozen=True)
class TableSchema:
    """A table, or an array or object that is accessed like one."""

    name: str
    number: int
    type: str
    keys: Sequence[KeyField]
    actions: Sequence[ActionSpec]
    data: Sequence[DataField]

    @classmethod
    def parse(cls, given: Mapping[str, Any]) -> TableSchema:
        """Read a table of the schema."""
        keys = [
            KeyField(key["name"], key["id"], key["match_type"], Type.parse(key["type"]))
            for key in given["key"]
        ]
        actions = [
            ActionSpec(action["name"], action["id"], _data(action.get("data") or ()))
            for action in given.get("action_specs") or ()
        ]
        return cls(
            given["name"], given["id"], given["table_type"], keys, actions, _data(given.get("data") or ())
        )

    @property
    def is_match_action(self) -> bool:
        """Whether entries are matched with packets."""
        return self.type.startswith("MatchAction")

    @property
    def has_cells(self) -> bool:
        """Whether entries are cells, which always exist: counters, meters and registers."""
        return self.type in _ARRAYS

    def encode_key(self, key: Mapping[str, Match]) -> Any:
        """Build the message of a key."""
        fields = [(find(self.keys, name, self._label, "key field"), value) for name, value in key.items()]
        return message("TableKey")(fields=[field.encode(value, self.name) for field, value in fields])

    def decode_key(self, key: Any) -> dict[str, Match]:
        """Return the values of a key by full names, without fields that match any value."""
        by_number = {field.number: field for field in self.keys}
        found = ((by_number[field.field_id], field) for field in key.fields)
        values = ((own.name, own.decode(field)) for own, field in found)
        return {name: value for name, value in values if value is not None}

    def encode_data(self, action: str | None, data: Mapping[str, Value]) -> Any:
        """Build the message of an action and its data."""
        built = message("TableData")()
        fields, label = list(self.data), self._label
        if action is not None:
            spec = find(self.actions, action, self._label, "action")
            built.action_id = spec.number
            fields, label = [*spec.params, *self.data], f"{self._label}, action {spec.name}"
        for name, value in data.items():
            built.fields.append(find(fields, name, label, "data field").encode(value, label))
        return built

    def decode_data(self, data: Any) -> tuple[str | None, dict[str, Value]]:
        """Return the full name of the action, `None` without one, and the data by full names."""
        spec = next((action for action in self.actions if action.number == data.action_id), None)
        by_number = {field.number: field for field in [*self.data, *(spec.params if spec else ())]}
        values: dict[str, Value] = {}
        for field in data.fields:
            own = by_number[field.field_id]
            value = own.decode(field)
            # A register of several pipes has a value for each; the first pipe's is kept.
            if value is not None:
                values.setdefault(own.name, value)
        return spec.name if spec else None, values

    @property
    def _label(self) -> str:
        return f"table {self.name}"


def parse(text: bytes) -> list[TableSchema]:
    """Read the tables of a schema."""
    return [TableSchema.parse(table) for table in json.loads(text)["tables"]]


def _data(given: Iterable[Mapping[str, Any]]) -> list[DataField]:
    """Read data fields: plain ones, `singleton`, or the alternatives of `oneof`."""
    fields: list[DataField] = []
    for one in given:
        alternatives = one.get("oneof") or [one.get("singleton", one)]
        fields.extend(DataField.parse(field) for field in alternatives)
    return fields


def _number(value: bytes) -> int:
    return int.from_bytes(value, "big")
