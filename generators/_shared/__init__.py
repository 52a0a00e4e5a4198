"""What several operators of this root share: `from .._shared.clouds import …`."""
