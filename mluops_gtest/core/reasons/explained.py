"""Explanations in words."""

from typing import Final

from mluops_gtest.core.explanation import Explanation, OneSided
from mluops_gtest.core.readings import Headline, where_reading
from mluops_gtest.core.reasons import explained_chinese, explained_english
from mluops_gtest.core.reasons.notation import place, sliced, worded

_LANGUAGES: Final = {"en": explained_english, "zh": explained_chinese}
# As many elements as this are named one by one where they are scattered.
_MAX_NAMED: Final = 3


def explanation_words(explanation: Explanation, lang: str = "en") -> str:
    """Where and how an output of one case is wrong, in one sentence."""
    language, told = _LANGUAGES[lang], explanation.told
    subject, is_plural = _subject(explanation, lang)
    if explanation.size == 1 and told.law is None and explanation.samples:
        sample = explanation.samples[0]
        return str(language.INSTEAD.format(explanation.output, sample.evaluated, sample.baseline))
    words: str = language.sentence(subject, is_plural, told.law, told.lawful, explanation.wrong)
    vague = told.law is None or isinstance(told.law, OneSided)
    if vague and explanation.wrong > _MAX_NAMED and explanation.first and not explanation.is_exact(told):
        ends = (place(explanation.output, index) for index in (explanation.first, explanation.last))
        words += language.BETWEEN.format(*ends)
    return words


def headline_words(headline: Headline, lang: str = "en") -> str:
    """A group of failures in one sentence."""
    language = _LANGUAGES[lang]
    said = language.sentence(*_headline_subject(headline, lang), headline.law, 1, 1)
    return str(language.headline(headline, said))


def headline_parts(headline: Headline) -> tuple[str, str, str]:
    """Place, law and condition of a headline in English, each empty where it has none."""
    place = "" if headline.where is None else explained_english.subject(headline.output, headline.where)[0]
    law = "" if headline.law is None else worded(explained_english.LAWS, headline.law)
    return place, law, " or ".join(map(explained_english.rule_words, headline.rules))


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
    reading = where_reading(told.where)
    subject, is_plural = language.subject(output, reading)
    if explanation.is_exact(told):
        return subject, is_plural
    if len(reading.spans) == 1:
        subject = sliced(f"{output}.flat", reading.axes)
    return language.share(explanation.wrong, told.inside, subject), True


def _headline_subject(found: Headline, lang: str) -> tuple[str, bool]:
    language, output = _LANGUAGES[lang], found.output
    if found.size == 1:
        return output, False
    if found.where is not None:
        subject, is_plural = language.subject(output, found.where)
        return (subject, is_plural) if found.fills else (language.ELEMENTS.format(subject), True)
    if found.lines is not None:
        return language.LINES[found.lines.kind].format(output, found.lines.axis), True
    if found.size and found.wrong > 1:
        return language.scattered(output, found.wrong, found.size), found.wrong < found.size
    if found.wrong:
        pattern = language.ONE if found.wrong == 1 else language.SOME
        return pattern.format(output, found.wrong), found.wrong > 1
    if found.percent is not None and found.law is None:
        return language.PERCENT.format(output, *found.percent), True
    return language.ELEMENTS.format(output), True
