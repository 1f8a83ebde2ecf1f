"""Arrow C streams without compiled code: all batches are made before the stream is handed over."""

from collections.abc import Callable, Iterator


def make_stream(make_schema: Callable[[], object], arrays: Iterator[object]) -> object:
    """A capsule of an Arrow stream.

    `make_schema` gives a fresh `arrow_schema` capsule, the iterator `arrays` gives `arrow_array` capsules.
    """
    import nanoarrow
    from nanoarrow.c_array_stream import CArrayStream

    schema = nanoarrow.c_schema(make_schema())
    batches = [nanoarrow.c_array(capsule, schema) for capsule in arrays]
    capsule: object = CArrayStream.from_c_arrays(batches, schema, move=True).__arrow_c_stream__()
    return capsule
