"""How small failures become: `python -m studies.minimise_mutants [--all] [--op OP]`.

Wrong implementations that operators ship, each from a case that it fails, and mistakes planted into the C example where
there is a compiler. Prints the table of docs/reference/finding-bugs.md. `--all` takes every shipped one, from the first
case of a thousand elements that it fails, else from the largest, and tells in how many the result is small.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

from mluops_gtest.catalog.selection import Session
from mluops_gtest.core.call import OpCall, Status
from mluops_gtest.core.case import Case, Query
from mluops_gtest.core.declaration import Mutant
from mluops_gtest.core.operator import Operator
from mluops_gtest.core.operator_parts import MUTANTS, REDUCTIONS
from mluops_gtest.running.caller import Caller, InlineCaller, open_callers
from mluops_gtest.running.case_run import CaseRun, Options
from mluops_gtest.running.options import RunOptions
from mluops_gtest.search.minimise import Minimised, Trials, minimised, what_shrank

ROOT = Path(__file__).parents[1]
LARGE = 1000
# Operator → wrong implementations with the case to begin with.
CHOSEN = {
    "abs": {"elements_are_copied_as_they_are": "many_strided", "every_sign_is_turned": "many_strided"},
    "active_rotated_filter_forward": {"filters_turn_counter_clockwise": "random_1"},
    "ball_query": {"inclusive_max": "random_8_float", "max_ignored": "points_1025"},
    "bbox_overlaps": {"the_second_area_divides": "rows_257_float", "negative_sides_are_not_clamped": "rows_129_float"},
    "div": {"results_are_y_x": "elements_1025_float", "results_are_x_y": "elements_1025_float"},
    "dynamic_point_to_voxel_forward": {"invalid_kept": "points_255", "column_0_decides": "points_255"},
    "dynamic_scatter_backward": {"last_index_wins": "ties_in_one_deep_voxel", "drops_voxel_0": "network_mvxnet_twin"},
    "focal_loss_sigmoid_backward": {"gamma_is_0": "rows_257", "x_has_the_other_sign": "rows_257"},
    "focal_loss_sigmoid_forward": {"gamma_is_0": "rows_257", "x_has_the_other_sign": "rows_257"},
    "get_indice_pairs": {
        "plain_division": "network_down_41x1440x1440_twin",
        "height_fastest": "network_down_41x1440x1440_twin",
    },
    "indice_convolution_backward_data": {
        "weights_transposed": "centerpoint_0_twin_float",
        "overwrites": "centerpoint_0_twin_float",
    },
    "indice_convolution_backward_filter": {"mean": "centerpoint_0_twin_float", "width_is_height": "channels_7_to_13"},
    "indice_convolution_forward": {"two_dimensional": "centerpoint_0_twin_float", "own_type": "size_channels_in_255"},
    "masked_col2im_forward": {"col_transposed": "many_masks_4097_float", "rows_overlap": "many_masks_4097_float"},
    "masked_im2col_forward": {"swapped_masks": "many_masks_1025_float", "linear_bounds": "many_masks_1025_float"},
    "moe_dispatch_backward_data": {
        "the_slot_is_locations_alone": "slots_300",
        "experts_are_counted_from_1": "hidden_257",
    },
    "moe_dispatch_backward_gate": {
        "the_slot_is_locations_alone": "samples_65",
        "experts_are_counted_from_1": "cancel_64",
    },
    "moe_dispatch_forward": {"the_slot_is_locations_alone": "samples_65", "experts_are_counted_from_1": "samples_65"},
    "ms_deform_attn_forward": {"corners_are_aligned": "map_200_full", "the_first_level_alone_counts": "levels_8"},
    "points_in_boxes": {"boxes_are_not_turned": "dense_130", "z_is_ignored": "dense_130"},
    "psamask_backward": {"masks_are_mirrored": "psanet_twin_type_1", "masks_are_read_as_nchw": "random_1"},
    "psamask_forward": {"masks_are_mirrored": "psanet_twin_type_1", "masks_are_read_as_nchw": "random_1"},
    "roiaware_pool3d_backward": {"gradients_are_assigned_not_added": "fan_in_0", "point_0_is_none": "fan_in_0"},
    "roiaware_pool3d_forward": {"boxes_are_not_turned": "headings", "z_is_ignored": "borders"},
    "roipoint_pool3d": {
        "boxes_are_not_turned": "network_twin_1_float",
        "the_last_points_are_taken": "network_twin_1_float",
    },
    "sqrt": {"results_are_1_x": "elements_1025_float", "results_are_x²": "elements_1025_float"},
    "three_interpolate_backward": {
        "lost_in_a_vector": "odd_7x63x127x129_float",
        "lost_between_tiles": "odd_7x63x127x129_float",
    },
    "three_interpolate_forward": {
        "indices_triples_first": "odd_7x63x127x129_float",
        "cell_tail": "odd_7x63x127x129_float",
    },
    "three_nn_forward": {"one_thrice": "network_63_known", "infinite_counts": "nonfinite_tiles_all_but_1_float"},
    "tin_shift_backward": {
        "gradients_move_by_shifts_as_forward_s_adjoint_does": "released_twin_float",
        "groups_are_interleaved": "released_twin_float",
    },
    "tin_shift_forward": {
        "frames_move_the_other_way": "released_twin_float",
        "groups_are_interleaved": "released_twin_float",
    },
    "voxel_pooling_forward": {"last_wins": "bevdepth_twin", "half_sums": "crowded_1025"},
    "voxelization": {"coors_stand_as_x_y_z": "network_centerpoint_twin", "no_limit_of_x_counts": "all_cells"},
}
# Mistakes of examples/c_backend/bugs.h, each with the case to begin with.
PLANTED = {
    "past_end": "voxel_pooling_forward/bevdepth_twin",
    "writes_input": "indice_convolution_forward/centerpoint_0_twin_float",
    "wrong_status": "get_indice_pairs/network_down_41x1440x1440_twin",
    "uninitialised": "three_nn_forward/network_63_known",
    "segfault": "masked_im2col_forward/many_masks_1025_float",
}


class Wrong:
    """A wrong implementation as a backend, with the operator's own checks in front of it."""

    def __init__(self, mutant: Mutant, operator: Operator) -> None:
        self.name, self._operator = mutant.name, operator
        self._implementation = mutant.fresh()

    def run(self, call: OpCall) -> Status:
        """The checks' answer, else the mutant's."""
        early = self._operator.early_answer(call)
        return self._implementation(call) if early is None else early


def mutant_of(session: Session, operator: str, name: str) -> Mutant:
    """The wrong implementation of that name."""
    mutants = session.catalogue.operators.part(operator, MUTANTS) or ()
    return next(mutant for mutant in mutants if mutant.name == name)


def case_of(session: Session, case_id: str) -> Case:
    """The declared case of that id."""
    chosen = session.select_one(case_id)
    return session.source((chosen,)).load(chosen.id)


def minimised_on(session: Session, caller: Caller, case: Case) -> Minimised:
    """The smallest case that fails for the same cause."""
    operator = session.catalogue.operators[case.operator]
    reductions = session.catalogue.operators.part(operator.name, REDUCTIONS) or {}
    return minimised(case, operator, reductions, Trials(caller, Options(), operator))


def chosen(session: Session, only: str | None) -> Iterator[tuple[str, Case, Minimised]]:
    """Name, case and result of every chosen implementation."""
    for operator, cases in CHOSEN.items():
        if only not in (None, operator):
            continue
        for name, case_name in cases.items():
            case = case_of(session, f"{operator}/{case_name}")
            wrong = Wrong(mutant_of(session, operator, name), session.catalogue.operators[operator])
            yield name, case, minimised_on(session, InlineCaller(wrong), case)


def planted(session: Session) -> Iterator[tuple[str, Case, Minimised]]:
    """The same for mistakes in C; nothing where there is no compiler."""
    if shutil.which("gcc") is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        for bug, case_id in PLANTED.items():
            library = Path(folder, f"{bug}.so")
            sources = sorted(map(str, (ROOT / "examples" / "c_backend").glob("*.c")))
            flags = ["-std=c11", "-O1", "-fPIC", "-pthread", f"-DBUG_{bug.upper()}", "-shared"]
            subprocess.run(["gcc", *flags, "-o", str(library), *sources, "-lm"], check=True)
            request = RunOptions(Query((case_id,)), ("builtin",), f"c:{library}")
            with open_callers(request, session.catalogue) as callers:
                case = case_of(session, case_id)
                yield f"C: {bug}", case, minimised_on(session, callers[0], case)


def everything(session: Session, only: str | None) -> Iterator[tuple[str, Case, Minimised]]:
    """Name, case and result of every shipped implementation that some small case catches."""
    for operator in session.catalogue.operators.values():
        if only not in (None, operator.name):
            continue
        selected = [
            one
            for one in session.select(Query((operator.name,))).cases
            if not {"network", "heavy", "race", "undefined", "subnormal", "negative"} & set(one.tags)
        ]
        source = session.source(tuple(selected))
        for mutant in session.catalogue.operators.part(operator.name, MUTANTS) or ():
            caller = InlineCaller(Wrong(mutant, operator))
            executor, first = CaseRun(caller, Options(explain=False)), None
            for case in (source.load(one.id) for one in selected):
                if case.elements < 1 << 18 and executor.run_case(case, operator).outcome.fails:
                    first = case if first is None or case.elements > first.elements else first
                    if first.elements >= LARGE:
                        break
            if first is not None:
                yield mutant.name, first, minimised_on(session, caller, first)


def row(name: str, case: Case, found: Minimised) -> str:
    """A row of the table."""
    before, after = found.elements
    return f"| {case.id} | {name} | {before} → {after} | {found.calls} | {what_shrank(found)} |"


def main() -> int:
    """Print the table, and how many are small."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--op")
    options = parser.parse_args()
    # Wrong implementations divide by zero and overflow.
    warnings.simplefilter("ignore")
    session = Session()
    print("| case | wrong implementation | elements | calls | what shrank |\n|---|---|---|---|---|")
    found = []
    rows = everything(session, options.op) if options.all else chosen(session, options.op)
    for name, case, result in rows:
        found.append(result)
        print(row(name, case, result), flush=True)
    if not options.all and options.op is None:
        for name, case, result in planted(session):
            found.append(result)
            print(row(name, case, result), flush=True)
    small = sum(10 * one.elements[1] <= one.elements[0] for one in found)
    most = max(one.calls for one in found)
    print(f"\n{small} of {len(found)} have at most a tenth of the elements; at most {most} calls.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
