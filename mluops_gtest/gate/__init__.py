"""A report beside a reference and a list of waivers: may the change be merged."""
