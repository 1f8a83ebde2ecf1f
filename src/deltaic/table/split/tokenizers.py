"""Tokenizers by name: how text becomes terms.

    raw          the whole value
    whitespace   cut at white space, nothing else
    simple       cut at what is no letter or digit
    default      simple, tokens of less than 40 bytes, lower case
    en_stem      default, then English stems; stem_<language> for the others

The engine's own `raw` drops values over 255 bytes without a word, in the index and in fast fields; here it is
registered anew, without a limit. Every index is therefore opened by `engine.open_index`.
"""

from functools import cache
from typing import TYPE_CHECKING

from deltaic.errors import InputError

if TYPE_CHECKING:
    import tantivy

LANGUAGES = (
    "arabic", "danish", "dutch", "english", "finnish", "french", "german", "greek", "hungarian", "italian", "norwegian",
    "portuguese", "romanian", "russian", "spanish", "swedish", "tamil", "turkish",
)  # fmt: skip
"""The languages that have a stemmer."""

PLAIN = ("default", "raw", "simple", "whitespace", "en_stem")
MAX_TOKEN_BYTES = 40
"""Tokens of `default` are shorter than this, and those of the stemmers too: what is longer is hardly a word."""


def tokenizer_names() -> tuple[str, ...]:
    """Every tokenizer that there is."""
    return (*PLAIN, *(f"stem_{language}" for language in LANGUAGES))


def check_tokenizer(name: str) -> str:
    """Give the name back if there is such a tokenizer."""
    if name not in tokenizer_names():
        raise InputError(f"there is no tokenizer {name!r}; there are {', '.join(tokenizer_names())}")
    return name


@cache
def analyzer(name: str) -> "tantivy.TextAnalyzer":
    """The tokenizer of that name."""
    import tantivy

    check_tokenizer(name)
    if name == "raw":
        return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.raw()).build()
    if name == "whitespace":
        return tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    if name == "simple":
        return builder.build()
    builder = builder.filter(tantivy.Filter.remove_long(MAX_TOKEN_BYTES)).filter(tantivy.Filter.lowercase())
    if name != "default":
        language = "english" if name == "en_stem" else name.removeprefix("stem_")
        builder = builder.filter(tantivy.Filter.stemmer(language))
    return builder.build()
