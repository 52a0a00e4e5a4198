"""The languages of the page."""

from mluops_gtest.reports.html import chinese, english

WORDS = {"en": english.WORDS, "zh": chinese.WORDS}
# What browsers and screen readers call the language.
LANGUAGE_TAGS = {"en": "en", "zh": "zh-CN"}
