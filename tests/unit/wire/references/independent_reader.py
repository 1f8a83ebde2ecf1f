"""A second reader of references, written from the page alone: no code of deltaic, no error codes, only lists.

A reference is `(version, index, [(type, value), …])`; a value is a number, a pair, a list, a text, or bytes where the
type is not known. Bytes that are no reference raise ValueError.
"""

import io


def read_reference(data):
    stream = io.BytesIO(data)
    version = _version(stream)
    made = (version, *_body(stream))
    if stream.read(1):
        raise ValueError("bytes behind")
    return made


def read_block(data):
    stream = io.BytesIO(data)
    version = _version(stream)
    made = [(version, *_body(stream)) for _ in range(_number(stream))]
    if stream.read(1):
        raise ValueError("bytes behind")
    return made


def _exactly(stream, count):
    data = stream.read(count)
    if len(data) != count:
        raise ValueError("cut off")
    return data


def _version(stream):
    version = int.from_bytes(_exactly(stream, 2), "big")
    if version == 0xFFFF:
        version = int.from_bytes(_exactly(stream, 4), "big")
        if version < 0xFFFF:
            raise ValueError("version in the long form fits the short one")
    return version


def _number(stream):
    first = _exactly(stream, 1)[0]
    if first >> 7 == 0:
        return first
    more = 1 if first >> 6 == 2 else 2
    value = int.from_bytes(bytes([first % 64]) + _exactly(stream, more), "big")
    if value < (1 << 7 if more == 1 else 1 << 14):
        raise ValueError("number too long")
    return value


def _body(stream):
    index = _number(stream)
    parameters = []
    for _ in range(_exactly(stream, 1)[0]):
        code = _exactly(stream, 1)[0]
        if code == 0:
            raise ValueError("type 0")
        inner = io.BytesIO(_exactly(stream, _number(stream)))
        parameters.append((code, _value(code, inner)))
        if inner.read(1):
            raise ValueError("bytes left in a parameter")
    known = [code for code, _ in parameters if code < 7]
    if known != sorted(known, key=lambda code: code != 1):
        raise ValueError("a parent behind a selector")
    return index, parameters


def _value(code, stream):
    if code in (1, 2):
        return _number(stream)
    if code == 3:
        return _pair(stream)
    if code == 4:
        found = [_number(stream) for _ in range(_number(stream))]
        if not found or len(found) != len(dict.fromkeys(found)):
            raise ValueError("indices")
        return found
    if code == 5:
        found = [_pair(stream) for _ in range(_number(stream))]
        if not found:
            raise ValueError("ranges")
        for place, (start, end) in enumerate(found):
            if any(start < other_end and other_start < end for other_start, other_end in found[:place]):
                raise ValueError("overlap")
        return found
    data = stream.read()
    if code == 6:
        if len(data) > 65535:
            raise ValueError("key too long")
        return data.decode("utf-8")
    return data


def _pair(stream):
    start, end = _number(stream), _number(stream)
    if not start < end:
        raise ValueError("empty range")
    return (start, end)
