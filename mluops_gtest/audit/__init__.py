"""How strong the suite is: rules that every operator is held to, whoever wrote it."""
