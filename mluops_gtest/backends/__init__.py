"""What can be tested: the built-in backends, and how any other is found."""
