"""Blobs reach any stream whole, in few pieces."""

import numpy as np
import pytest

from deltaic.wire.write_stream import Output, varint


class Keeping:
    """A stream that keeps what it is given, as it was given."""

    def __init__(self, most=None):
        self.pieces = []
        self._most = most

    def write(self, data):
        taken = data[: self._most] if self._most else data
        self.pieces.append(taken)
        return len(taken)

    def joined(self):
        return b"".join(self.pieces)


@pytest.mark.parametrize(
    ("value", "hex_bytes"),
    [(0, "00"), (127, "7f"), (128, "8100"), (300, "822c"), (2**28 - 1, "ffffff7f"), (2**31 - 1, "87ffffff7f")],
)
def test_varints_are_written_most_significant_group_first(value, hex_bytes):
    assert varint(value).hex() == hex_bytes


def test_minus_one_is_five_bytes_as_varint_and_ten_as_varlong():
    stream = Keeping()
    output = Output(stream)
    output.varint(-1)
    output.varlong(-1)
    output.flush()
    assert stream.joined().hex() == "8fffffff7f" + "81ffffffffffffffff7f"


def test_thousands_of_small_writes_become_one_piece():
    stream = Keeping()
    output = Output(stream)
    for number in range(5000):
        output.varint(number)
    assert stream.pieces == []
    output.flush()
    assert len(stream.pieces) == 1
    assert output.written == len(stream.joined())


def test_a_stream_may_keep_the_pieces_it_was_given():
    stream = Keeping()
    output = Output(stream)
    wanted = b""
    for number in range(6):
        output.raw(bytes([number]) * 200_000)
        output.array(np.full(300_000, number, np.uint8))
        output.zeros(300_000)
        wanted += bytes([number]) * 500_000 + bytes(300_000)
    output.flush()
    assert stream.joined() == wanted
    assert output.written == len(wanted)


def test_a_stream_that_takes_less_than_it_is_given_gets_the_rest_again():
    stream = Keeping(most=1000)
    output = Output(stream)
    data = np.arange(300_000, dtype=np.uint32).view(np.uint8)
    output.utf("name")
    output.array(data)
    output.flush()
    assert stream.joined() == b"\x00\x04name" + data.tobytes()


def test_a_stream_whose_write_gives_nothing_back_has_taken_all():
    pieces = []

    class Silent:
        def write(self, data):
            pieces.append(bytes(data))

    output = Output(Silent())
    output.raw(b"abc")
    output.flush()
    assert pieces == [b"abc"]
