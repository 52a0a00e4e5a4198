"""Whether a call tells in which order checks are asked."""


def shows_order(operator, expected, call):
    """The call breaks the expected check and a later one of another status, so that their order decides the answer."""
    order = [check.name for check in operator.checks]
    first, *later = operator.checks[order.index(expected) :]
    return any(check.status != first.status and check.subsumed is None and _is_broken(check, call) for check in later)


def _is_broken(check, call):
    try:
        return not check.holds(call)
    except Exception:
        # It cannot look at the call.
        return False
