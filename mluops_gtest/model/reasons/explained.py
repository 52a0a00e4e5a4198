"""Explanations in words."""

from typing import Final

from mluops_gtest.model.explanation import Explanation
from mluops_gtest.model.headline import Headline
from mluops_gtest.model.readings import where_reading
from mluops_gtest.model.reasons import explained_chinese, explained_english
from mluops_gtest.model.reasons.notation import place

_LANGUAGES: Final = {"en": explained_english, "zh": explained_chinese}
# As many elements as this are named one by one where they are scattered.
_MAX_NAMED: Final = 3


def explanation_words(explanation: Explanation, lang: str = "en") -> str:
    """Where and how an output of one case is wrong, in one sentence."""
    language, told = _LANGUAGES[lang], explanation.told
    subject, is_plural = _subject(explanation, lang)
    words: str = language.sentence(subject, is_plural, told.law, told.lawful, explanation.wrong)
    return words


def headline_words(headline: Headline, lang: str = "en") -> str:
    """A group of failures in one sentence."""
    words: str = _LANGUAGES[lang].headline(headline)
    return words


def support_words(headline: Headline, lang: str = "en") -> tuple[str, ...]:
    """What each rule of a headline rests on."""
    return tuple(_LANGUAGES[lang].support(headline, rule) for rule in headline.rules)


def _subject(explanation: Explanation, lang: str) -> tuple[str, bool]:
    language, output, told = _LANGUAGES[lang], explanation.output, explanation.told
    if explanation.size == 1:
        return output, False
    if told.where.is_scattered:
        if explanation.wrong <= min(_MAX_NAMED, len(explanation.samples)):
            return language.AND.join(place(output, one.index) for one in explanation.samples), explanation.wrong > 1
        return language.scattered(output, explanation.wrong, explanation.size), True
    subject, is_plural = language.subject(output, where_reading(told.where))
    if explanation.is_exact(told):
        return subject, is_plural
    return language.share(explanation.wrong, told.inside, subject), True
