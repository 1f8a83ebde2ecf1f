"""What the guide says runs, and the examples of the format page are what the codec writes."""

import re

import numpy as np

from deltaic.wire.vectors import DictionaryKeeper, EncodeOptions, VectorDelta, encode_batch, encode_delta, smaller_form


def test_the_python_of_the_guide_runs(project_root):
    blocks = re.findall(r"```python\n(.*?)```", (project_root / "docs/vectors.md").read_text(), re.DOTALL)
    names = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, "vectors.md", "exec"), names)
    assert len(blocks) >= 5


def delta(dims, changes):
    values = np.array(list(changes.values()), np.float32)
    return VectorDelta(dims, np.array(list(changes), np.uint32), values.view(np.uint32))


def test_the_messages_of_the_page_are_what_is_written(project_root):
    page = re.sub(r"[^0-9a-f]", "", (project_root / "docs/formats/vector-delta.md").read_text().partition("## 5.")[0])
    written = [
        encode_delta(delta(384, {5: 1.0, 12: -2.0, 14: 0.5, 100: 0.25, 105: 3.0})),
        encode_delta(VectorDelta.identity(384)),
        encode_delta(delta(3, {0: 1.0, 1: 2.0, 2: 3.0})),
        encode_delta(delta(8, {2: 12.0, 3: 13.0, 4: 14.0, 6: 16.0})),
    ]
    assert [len(message) for message in written] == [41, 16, 26, 35]
    for message in written:
        assert message.hex() in page


def test_the_frame_of_the_page_is_what_is_written(project_root):
    old = np.zeros((2, 4), np.float32)
    new = np.array([[0, 1, 0, 0], [1, 2, 3, 4]], np.float32)
    frame = encode_batch(old, new, np.array([10, 11]), options=EncodeOptions())
    page = re.sub(r"[^0-9a-f]", "", (project_root / "docs/formats/vector-delta.md").read_text())
    assert len(frame) == 280
    assert frame[:32].hex() in page and frame[224:].hex() in page
    for at in range(32, 224, 32):
        assert frame[at : at + 32].hex() in page


def test_the_smaller_form_is_relative_for_noise_and_absolute_for_new_vectors():
    random = np.random.default_rng(6)
    old = random.standard_normal((300, 96)).astype(np.float32)
    noisy = (old * (1 + 1e-4 * random.standard_normal(old.shape))).astype(np.float32)
    other = np.round(random.standard_normal(old.shape), 1).astype(np.float32)
    assert smaller_form(old, noisy).relative and not smaller_form(old, other).relative
    for new in (noisy, other):
        sizes = {
            form: len(encode_batch(old, new, options=EncodeOptions(relative=form, compression="zstd")))
            for form in (True, False)
        }
        assert len(encode_batch(old, new, options=smaller_form(old, new))) == min(sizes.values())
    assert smaller_form(old, old).compression == "zstd"


def test_a_keeper_goes_on_with_a_published_version():
    keeper = DictionaryKeeper(8, dict_id=1)
    for _ in range(2):
        keeper.observe(delta(8, {1: 2.0}))
    published = keeper.publish().dictionary
    again = DictionaryKeeper.resume(published)
    assert again.observe(delta(8, {1: 2.0})) == 0
    for _ in range(2):
        again.observe(delta(8, {2: 2.0}))
    done = again.publish()
    assert (done.added, done.dictionary.version, done.dictionary.dict_id) == ((1,), 2, 1)
