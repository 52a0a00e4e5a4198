"""With torch: one gather along the pixels for all windows, on the elements' bits."""

from collections.abc import Mapping

import torch

from mluops_gtest.authoring import OpCall


def run(call: OpCall, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
    """Write every window into its column of data_col."""
    # Integers of the same size: NaN payloads and −0 pass through a copy and a product with 1 unchanged.
    bits = torch.int16 if inputs["feature"].dtype == torch.float16 else torch.int32
    image = inputs["feature"].view(bits)[0]
    channels, height, width = image.shape
    rows, in_height = _reached(inputs["mask_h_idx"], call.param("pad_h"), call.param("kernel_h"), height)
    cols, in_width = _reached(inputs["mask_w_idx"], call.param("pad_w"), call.param("kernel_w"), width)
    # §1.4: row (c·kh + i)·kw + j, column the mask position.
    pixels = (rows[:, None] * width + cols).flatten()
    inside = in_height[:, None] & in_width
    windows = outputs["data_col"].view(bits).view(channels, -1)
    torch.gather(image.view(channels, -1), 1, pixels.expand(channels, -1), out=windows)
    windows *= inside.flatten()


def _reached(masks: torch.Tensor, pad: int, length: int, extent: int) -> tuple[torch.Tensor, torch.Tensor]:
    """[length, m]: the image's row or column under each window position, and whether it exists."""
    # 64 bits: any int32 position is legal, and the subtraction must not wrap around.
    position = masks.to(torch.int64) - pad + torch.arange(length, device=masks.device)[:, None]
    return position.clamp(0, extent - 1), (position >= 0) & (position < extent)
