"""Why a case came to its outcome: a small type per kind, so that nobody has to read words.

A result has a tuple of them, the main one first. What stands in files is the `kind` and the fields; words are made in
model/reasons, once per language. Only text that comes from outside (a backend's own words, an exception's message)
is kept as text.
"""

# ruff: noqa: F403 - all of them, so that a cause is written `cause.Declined`
from mluops_gtest.core.cause.answers import *
from mluops_gtest.core.cause.answers import Doubt, Told, WrongCall, WrongValue
from mluops_gtest.core.cause.around_the_call import *
from mluops_gtest.core.cause.around_the_call import NotAsked, NotItsFault, Prelude
from mluops_gtest.core.cause.base import *
from mluops_gtest.core.cause.in_the_call import *
from mluops_gtest.core.cause.in_the_call import Damage, NoReply

Cause = Prelude | NotAsked | NotItsFault | NoReply | Damage | WrongCall | WrongValue | Doubt | Told
