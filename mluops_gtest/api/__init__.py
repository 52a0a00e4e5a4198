"""What `import mluops_gtest` offers, and what the command line is made of; neither click nor rich is needed."""
