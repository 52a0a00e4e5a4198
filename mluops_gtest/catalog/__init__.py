"""What a content root declares: operators, cases, selection; and cases made from it, with their cache."""
