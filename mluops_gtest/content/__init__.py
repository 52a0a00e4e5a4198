"""What a content root declares: operators, cases, selection."""
