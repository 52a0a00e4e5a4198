"""The causes of a run's failures as the history keeps them; composed here, since results may not import explain."""

from mluops_gtest.model.report import RunReport


def causes_of(report: RunReport) -> list[tuple[str, str, int]]:
    """Mark, headline and number of cases of every cause that has a headline."""
    failing = report.failing
    if not any(result.explained for result in failing):
        return []
    # Late: most runs that are remembered have nothing to explain.
    from mluops_gtest.explain.groups import cause_groups
    from mluops_gtest.model.reasons.explained import headline_words

    groups = cause_groups(failing, report.results, report.shapes)
    return [(g.mark, headline_words(g.headline), len(g.members)) for g in groups if g.headline is not None]
