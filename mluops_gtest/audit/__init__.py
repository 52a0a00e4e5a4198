"""How strong the suite is: rules for every operator, ours and those of other teams."""
