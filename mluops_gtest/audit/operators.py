"""Every rule that an operator is held to."""

from collections.abc import Callable, Iterator
from typing import Final

from mluops_gtest.audit import declared_rules, shapes, value_rules
from mluops_gtest.audit.subject import Finding, Problems, Subject

Rule = Callable[[Subject], Problems]
_FUNCTIONS: Final[tuple[Rule, ...]] = (
    declared_rules.families,
    declared_rules.twins,
    declared_rules.documented,
    declared_rules.noted_large,
    declared_rules.recipes_used,
    declared_rules.boundary_per_axis,
    declared_rules.strides_of_length_1,
    value_rules.sizes_live,
    shapes.shapes_hold,
    declared_rules.checks_asked,
    declared_rules.checks_in_order,
    declared_rules.no_check_forgotten,
    value_rules.kernel_is_independent,
    value_rules.kernel_agrees,
    value_rules.bounds_declared,
    value_rules.mutants_caught,
    value_rules.variants_told_apart,
    value_rules.twins_see_one_element,
    value_rules.reseeding_keeps_promises,
)
# Name → rule; the first line of its docstring is what it demands.
RULES: Final = {rule.__name__: rule for rule in _FUNCTIONS}


def audit_operator(subject: Subject) -> Iterator[Finding]:
    """Everything in which the operator falls short of the rules."""
    for name, rule in RULES.items():
        for problem in rule(subject):
            yield Finding(name, subject.name, problem.place, problem.message, problem.remedy)
