"""The languages of the page; the words `o_…` are those of the outcomes."""

from mluops_gtest.model.outcome import Outcome
from mluops_gtest.reports.html import chinese, english

WORDS = {
    lang: {**words, **{f"o_{outcome.value}": outcome.words[lang] for outcome in Outcome}}
    for lang, words in (("en", english.WORDS), ("zh", chinese.WORDS))
}
# What browsers and screen readers call the language.
LANGUAGE_TAGS = {"en": "en", "zh": "zh-CN"}
