"""Fitted clauses as text, for people who want to know how a query was answered."""

import datetime
import ipaddress
from decimal import Decimal
from typing import Any

from deltaic.table.query.bound import (
    Always,
    Between,
    Bound,
    Equal,
    Group,
    InText,
    Near,
    Never,
    Pattern,
    Present,
    Spaced,
    Weighted,
)
from deltaic.table.query.columns import Target
from deltaic.table.query.tree import Gap

_MOST_SHOWN = 5
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def described(part: Bound, budget: int = 50) -> str:
    """A part in words of the language, cut where it is long."""
    if isinstance(part, Group):
        shown = " ".join(occur.value + described(inner, budget // 2) for occur, inner in part.clauses[:budget])
        more = f" … {len(part.clauses) - budget:,} more" if len(part.clauses) > budget else ""
        return f"({shown}{more})"
    if isinstance(part, Weighted):
        return f"{described(part.part, budget)}^{part.factor:g}"
    if isinstance(part, Always):
        return "*:*"
    if isinstance(part, Never):
        return f"nothing[{part.why}]" if part.why else "nothing"
    name = part.target.name
    if isinstance(part, Present):
        return f"{name}:*"
    if isinstance(part, InText):
        words = " ".join(word for _, word in part.tokens[:20])
        return f"{name}:{words}" if len(part.tokens) == 1 else f'{name}:"{words}"'
    if isinstance(part, Spaced):
        words = " ".join(word for _, word in part.spacings[0].tokens[:20])
        return f'{name}:"{words}"~({len(part.spacings)} spacings)'
    if isinstance(part, Pattern):
        return name + ":" + "".join(one.value if isinstance(one, Gap) else one for one in part.pieces)[:80]
    if isinstance(part, Near):
        return f"{name}:{part.text}~{part.distance}"
    if isinstance(part, Equal):
        values = ", ".join(_shown(part.target, value) for value in part.values[:_MOST_SHOWN])
        more = f", … {len(part.values) - _MOST_SHOWN:,} more" if len(part.values) > _MOST_SHOWN else ""
        return f"{name}={values}" if len(part.values) == 1 else f"{name} IN [{values}{more}]"
    return _range(part, name)


def _range(part: Between, name: str) -> str:
    low, high = ("*" if one is None else _shown(part.target, one) for one in (part.low, part.high))
    return f"{name}:{'[' if part.include_low else '{'}{low} TO {high}{']' if part.include_high else '}'}"


def _shown(target: Target, value: Any) -> str:
    kind = target.kind
    try:
        if kind == "date":
            return str(datetime.date(1970, 1, 1) + datetime.timedelta(days=value))
        if kind == "timestamp":
            micros = value * 10**6 // _UNITS[target.type.unit]
            return (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=micros)).isoformat()
        if kind == "decimal":
            return str(Decimal(value).scaleb(-target.type.scale))
        if kind == "ip":
            address = ipaddress.IPv6Address(value)
            return str(address.ipv4_mapped or address)
    except (OverflowError, ValueError):
        pass
    shown = repr(value)
    return shown if len(shown) <= 60 else shown[:60] + "…"
