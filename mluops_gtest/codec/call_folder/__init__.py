"""One call as files in a folder, for programs in any language."""
