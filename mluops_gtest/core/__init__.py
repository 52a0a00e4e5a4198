"""The values that flow through the program, from tensor to report: frozen, slotted, without files or processes."""
