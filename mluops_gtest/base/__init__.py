"""Tools that know no case: errors, frozen values, typed files, YAML with lines, text, the native C library."""
