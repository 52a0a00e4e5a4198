"""With torch: inputs propose outputs, axis after axis; a sort of the keys gives every proposal its row."""

from collections.abc import Iterator, Mapping

import torch

from mluops_gtest.authoring import OpCall

# Of one kernel offset: the rows of `indices` that propose an output, ascending, and what they propose.
Proposal = tuple[torch.Tensor, torch.Tensor]


def run(call: OpCall, inputs: Mapping[str, torch.Tensor], outputs: Mapping[str, torch.Tensor]) -> None:
    """Write the pairs of every kernel offset, their counts and the output sites; report num_act_out."""
    # Coordinates n, d, h, w as four long rows; a space may pass 2^31 cells, so keys take 64 bits.
    sites = inputs["indices"].t().to(torch.int64, memory_format=torch.contiguous_format)
    if call.param("sub_m"):
        found = inputs["indices"]
        pairs = _submanifold(call, sites)
    else:
        proposals = _proposals(call, sites, axes=3)
        # §3.2: the distinct keys, ascending, are all the output sites; the inverse is the row of each proposal.
        keys, rows = torch.unique(torch.cat([key for _, key in proposals]), return_inverse=True)
        found = _coordinates(keys, call.param("output_space"))
        counts = [len(key) for _, key in proposals]
        pairs = ((k, proposals[k][0], own) for k, own in enumerate(rows.split(counts)))
    outputs["out_indices"][: len(found)] = found
    outputs["indice_pairs"].fill_(-1)
    for k, in_rows, out_rows in pairs:
        outputs["indice_num"][k] = len(in_rows)
        outputs["indice_pairs"][k, 0, : len(in_rows)] = in_rows
        outputs["indice_pairs"][k, 1, : len(in_rows)] = out_rows
    call.scalars["num_act_out"] = len(found)


def _proposals(call: OpCall, sites: torch.Tensor, axes: int) -> list[Proposal]:
    """Per offset of the first `axes` kernel axes, in their order: input rows and linear keys of their outputs."""
    proposals = [(torch.arange(sites.shape[1], device=sites.device), sites[0])]
    for axis in range(axes):
        pad, stride, dilation, length, space = (
            call.param(name)[axis] for name in ("pad", "stride", "dilation", "filter_space", "output_space")
        )
        narrowed = []
        for rows, keys in proposals:
            padded = sites[axis + 1][rows] + pad
            for k in range(length):
                reached = padded - k * dilation
                site = torch.div(reached, stride, rounding_mode="floor") if stride > 1 else reached
                # §3.2: only whole strides are outputs; the division alone would round the others to a neighbour.
                kept = ((site * stride == reached) & (site >= 0) & (site < space)).nonzero().squeeze(1)
                narrowed.append((rows[kept], keys[kept] * space + site[kept]))
        proposals = narrowed
    return proposals


def _submanifold(call: OpCall, sites: torch.Tensor) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """(k, input rows, output rows) where only active sites are outputs."""
    _, height, width = call.param("output_space")
    pad, length = call.param("pad")[2], call.param("filter_space")[2]
    # Lines as long as proposals reach: one beyond an edge cannot meet a site of the next line.
    reach = width + pad + length - 1
    lines = (sites[0] * call.param("output_space")[0] + sites[1]) * height + sites[2]
    keys, order = (lines * reach + sites[3]).sort()
    keys = torch.cat([keys, keys.new_full((1,), torch.iinfo(torch.int64).max)])
    for window, (rows, line) in enumerate(_proposals(call, sites, axes=2)):
        # The offsets of one window line are neighbours: one search finds the first, the others follow it.
        wanted = line * reach + sites[3][rows] + (pad - length + 1)
        place = torch.searchsorted(keys, wanted)
        for k in reversed(range(length)):
            hit = keys[place] == wanted
            met = hit.nonzero().squeeze(1)
            yield window * length + k, rows[met], order[place[met]]
            place += hit
            wanted += 1


def _coordinates(keys: torch.Tensor, space: tuple[int, int, int]) -> torch.Tensor:
    """[number of keys, 4]: n, d, h, w of linear keys."""
    columns = []
    for length in reversed(space):
        columns.append(keys % length)
        keys = keys // length
    return torch.stack([keys, *reversed(columns)], dim=1)
