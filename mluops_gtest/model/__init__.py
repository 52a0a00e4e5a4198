"""The values that flow through the program: frozen, slotted, without I/O."""
