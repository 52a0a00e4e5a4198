"""The two encodings of a message: protobuf's text and binary forms, made for long lists of values."""
